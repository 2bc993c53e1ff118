"""The log: a refused request is one line in it, a fault of ours keeps its traceback."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

from tests import builders

pytestmark = pytest.mark.django_db


def test_a_person_without_the_owners_desk_is_one_line(caplog):
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
def test_what_nobody_foresaw_keeps_its_traceback(address, caplog, monkeypatch):
    def breaks(_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: breaks)
    assert Client(raise_request_exception=False).get(address).status_code == 500
    [told] = [record for record in caplog.records if record.name == "django.request"]
    assert "RuntimeError: nobody foresaw this" in logging.Formatter().format(told)
