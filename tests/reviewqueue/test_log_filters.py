"""The log: a refused request is one line in it, a fault of ours keeps its traceback."""

from __future__ import annotations

import logging

import pytest
from django.db import OperationalError
from django.test import Client

from tests import builders

pytestmark = pytest.mark.django_db


def test_a_refused_admin_page_is_one_log_line(caplog):
    client, eve = Client(), builders.a_person("eve@example.org")
    eve.is_staff = True
    eve.save()
    client.force_login(eve)
    address = "/admin/reviewqueue/unknownoutcome/"
    assert client.get(address).status_code == 403
    [told] = [record for record in caplog.records if record.name == "django.request"]
    assert (told.levelno, told.getMessage()) == (logging.WARNING, f"Forbidden (Permission denied): {address}")
    assert told.exc_info is None
    assert "\n" not in logging.Formatter().format(told)


@pytest.mark.parametrize("address", ["/account/login/", "/api/docs/", "/api/v1/runs"])
def test_an_unexpected_error_keeps_its_traceback(address, caplog, monkeypatch):
    def breaks(_: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: breaks)
    assert Client(raise_request_exception=False).get(address).status_code == 500
    [told] = [record for record in caplog.records if record.name == "django.request"]
    assert "RuntimeError: unexpected" in logging.Formatter().format(told)


def test_a_log_line_has_a_bounded_part_of_the_path(caplog):
    """A client chose the path: it must neither fill the log nor write lines of its own."""
    Client().get(f"/{'x' * 5_000}%0aINFO forged")
    [told] = [record for record in caplog.records if record.name == "django.request"]
    assert len(told.getMessage()) < 300
    assert "characters)" in told.getMessage()
    Client().get("/a%0aINFO forged")
    last = [record for record in caplog.records if record.name == "django.request"][-1]
    assert "\n" not in last.getMessage()


@pytest.mark.parametrize("address", ["/", "/account/login/", "/api/v1/runs"])
def test_while_the_database_is_away_each_request_is_one_line_and_503(address, caplog, monkeypatch):
    def away(_: object) -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: away)
    reply = Client(raise_request_exception=False).get(address)
    assert (reply.status_code, "Retry-After" in reply) == (503, True)
    told = [logging.Formatter().format(record) for record in caplog.records if record.name == "django.request"]
    assert all("\n" not in line for line in told)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("end", ["/", "", "/x"])
def test_the_log_has_no_link_that_resets_a_password(status, end, caplog, monkeypatch):
    """Its token is in the path, and a refusal by the rate limit comes before the path is resolved."""

    def away(_: object) -> None:
        raise OperationalError("connection refused")

    if status == 503:
        monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: away)
    else:
        monkeypatch.setattr("reviewqueue.serving.rate_limits.pages_of_address.take", lambda _: 7)
    address = f"/account/password/reset/key/1a-c0ffee-secret{end}"
    assert Client(raise_request_exception=False).get(address).status_code == status
    lines = [record.getMessage() for record in caplog.records if record.name == "django.request"]
    assert any("/account/" in line for line in lines)
    assert not any("secret" in line for line in lines)


def test_a_mistaken_link_that_resets_a_password_is_not_in_the_log(caplog):
    for end in ("", "/x"):
        Client().get(f"/account/password/reset/key/1a-c0ffee-secret{end}")
    assert not any("secret" in record.getMessage() for record in caplog.records)


def test_a_request_for_another_host_is_one_line(caplog):
    assert Client(raise_request_exception=False).get("/", headers={"host": "other.example.net"}).status_code == 400
    [record] = [it for it in caplog.records if it.name == "django.security.DisallowedHost"]
    assert "\n" not in logging.Formatter().format(record)


def test_the_library_of_chat_channels_logs_no_address():
    assert not logging.getLogger("urllib3.connectionpool").isEnabledFor(logging.INFO)
