"""A secret that a person or a program sends is found nowhere: no answer, log, draft, row, task, session, error report.

A marker is sent as password, token, key and code, in headers, cookies, queries and bodies, to every address of the URL map,
in requests that are answered well and in those that fail: by CSRF, without a session, with a wrong body, by a planted fault.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache, caches
from django.http import HttpRequest
from django.test import Client

from ledger.exact_json import dumps
from reviewqueue import tasks
from reviewqueue.api import authentication
from tests import builders
from tests.attack.outputs import Log, answer_text, stored, traceback_text, write_access_line
from tests.attack.page_routes import PAGES, a_page_world, admin_addresses
from tests.attack.routes import ROUTES, a_world
from tests.pages import desk

pytestmark = pytest.mark.django_db

MARKER = "Zq7marker0secret0Zq7"
#: As a key of ours would be written, so that it is looked up and not refused by its form.
KEY = f"rq_0123456789ab_{MARKER}{'x' * 23}"
NAMES = (
    *("password", "oldpassword", "password1", "password2", "token", "key", "code", "secret", "api_key", "otp", "pin"),
    *("attempt_token", "permit", "signature", "authorization", "lease", "csrf_token", "credential"),
)
HEADERS = {
    "Run-Lease": MARKER,
    "X-CSRFToken": MARKER,
    "Cookie": f"other={MARKER}; known_device={MARKER}; messages={MARKER}",
    "X-Api-Key": MARKER,
    "Proxy-Authorization": f"Basic {MARKER}",
    "Webhook-Signature": f"v1,{MARKER}",
    "Referer": f"http://testserver/account/login/?token={MARKER}",
}
QUERY = "&".join(f"{name}={MARKER}" for name in NAMES)
LOGGERS = (
    *("", "django.request", "django.security", "reviewqueue", "reviewqueue.access", "runs", "ledger", "allauth"),
    *("django-q", "httpx"),
)


@pytest.fixture
def log(settings) -> Iterator[Log]:
    """Every record at DEBUG, and the mail that an operator would get for each error."""
    settings.ADMINS = [("Ops", "ops@example.org")]
    cache.clear()
    handler, root = Log(), logging.getLogger()
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    root.addHandler(handler)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def fail_after_reading(get_response: Any) -> Any:
    """Middleware: a fault of ours, once everything that was sent is in local variables."""

    def answer(request: HttpRequest) -> Any:
        posted, asked, headers = dict(request.POST), dict(request.GET), dict(request.headers)
        cookies, sent = dict(request.COOKIES), list(request.META.items())
        if posted or asked or headers or cookies or sent:
            raise RuntimeError("planted")

    return answer


@pytest.fixture
def planted(settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.fail_after_reading"]


def assert_unseen(marker: str, log: Log, *answers: Any) -> None:
    """Nothing that was answered, written to the log, reported or stored holds the marker."""
    for response in answers:
        assert marker not in answer_text(response)
        write_access_line(response)
    assert marker not in log.text()
    assert marker not in stored()
    log.forget()


# --- pages ------------------------------------------------------------------------------------------------------------

FORMS = sorted(set(PAGES) - {"healthz", "readyz", "metrics"})
KINDS_THAT_SEND = ("nobody", "stranger", "reviewer", "owner")


@pytest.mark.parametrize("route", FORMS)
def test_no_page_shows_or_stores_what_was_sent_as_a_secret(route, log):
    page, world = PAGES[route], a_page_world()
    address = page.address(world)
    answers = []
    forms = {kind: page.fields(world, kind) if page.fields is not None else {} for kind in KINDS_THAT_SEND}
    for kind, form in forms.items():
        form |= {name: MARKER for name in NAMES if name not in form} | {"csrfmiddlewaretoken": MARKER}
        client = world.browser_of(kind)
        answers += [client.get(f"{address}?{QUERY}" if kind == "nobody" else address, headers=HEADERS)]
        answers += [client.post(address, form), client.post(address, form, headers={"HX-Request": "true"})]
        answers += [client.post(address, json.dumps(form), content_type="application/json")]
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        answers += [strict.post(address, form), strict.post(address, form, headers=HEADERS | {"Origin": "null"})]
    # The client chooses the page after sign-in, so the URL of the sign-in page repeats it.
    told = [answer for answer in answers if MARKER not in answer.headers.get("Location", "")]
    assert len(answers) - len(told) <= 1
    assert_unseen(MARKER, log, *told)


@pytest.mark.parametrize("route", FORMS)
def test_no_fault_on_a_page_reports_what_was_sent(route, log, planted):
    settings_of_world = a_page_world()
    address = PAGES[route].address(settings_of_world)
    for kind in ("nobody", "reviewer"):
        client = settings_of_world.browser_of(kind)
        client.raise_request_exception = False
        if kind == "reviewer":
            client.cookies["other"] = MARKER
        answer = client.post(f"{address}?{QUERY}", dict.fromkeys(NAMES, MARKER), headers={"Run-Lease": MARKER})
        if kind == "reviewer":
            assert answer.status_code == 500
            assert "planted" in log.text()
        assert_unseen(MARKER, log, answer)


def test_the_admin_site_shows_and_stores_none(log):
    world = a_page_world()
    client = world.browser_of("owner")
    answers = []
    for address in sorted(set(admin_addresses())):
        if "/logout/" not in address:
            answers.append(client.post(address, dict.fromkeys(NAMES, MARKER) | {"action": "none"}))
    assert_unseen(MARKER, log, *answers)


def test_an_address_that_is_not_there_repeats_nothing(log):
    client = desk.signed_in(builders.a_reviewer())
    answers = [
        ask(f"{address}?{QUERY}", dict.fromkeys(NAMES, MARKER), headers=HEADERS)
        for ask in (client.post, Client().post)
        for address in ("/no/such/page", "/api/no/such", "/api/v1/no/such")
    ]
    told = [answer for answer in answers if answer.status_code != 302]
    assert_unseen(MARKER, log, *told)


class TestSignIn:
    @pytest.fixture(autouse=True)
    def ana(self) -> User:
        return User.objects.create_user(username="ana@example.org", email="ana@example.org", password=MARKER)

    @pytest.mark.parametrize("password", [MARKER, f"wrong-{MARKER}"])
    @pytest.mark.parametrize("path", ["/account/login/", "/admin/login/"])
    @pytest.mark.parametrize("header", [{}, {"X-Requested-With": "XMLHttpRequest"}, {"Accept": "application/json"}])
    def test_a_password_is_in_no_output(self, password, path, header, log):
        form = {"login": "ana@example.org", "username": "ana@example.org", "password": password, "remember": "on"}
        client = Client()
        answers = [client.post(path, form, headers=header), client.get("/"), client.get("/account/password/")]
        answers += [Client(enforce_csrf_checks=True).post(path, form, headers=header)]
        assert_unseen(MARKER, log, *answers)

    def test_a_limit_that_is_full_repeats_none(self, log):
        client = Client()
        form = {"login": "ana@example.org", "password": f"wrong-{MARKER}"}
        answers = [client.post("/account/login/", form) for _ in range(12)]
        assert "Too many failed login attempts" in answers[-1].text
        assert_unseen(MARKER, log, *answers)

    @pytest.mark.parametrize("path", ["/account/password/", "/account/confirm/"])
    def test_changing_and_confirming_a_password_repeats_none(self, path, log, ana):
        client = Client()
        client.force_login(ana)
        form = {"oldpassword": MARKER, "password1": f"new-{MARKER}", "password2": f"other-{MARKER}"}
        answers = [client.post(path, form | {"password": f"no-{MARKER}"})]
        answers += [client.post(path, form | {"password": MARKER, "password2": f"new-{MARKER}"})]
        assert_unseen(MARKER, log, *answers)


# --- the API ----------------------------------------------------------------------------------------------------------


def bodies_with_secrets(good: Any) -> Iterator[Any]:
    """Yield the body with unknown members, with each member that is named like a secret replaced, and in a wrong shape."""
    if not isinstance(good, dict):
        return
    yield good | {name: MARKER for name in NAMES if name not in good}
    for name in NAMES:
        for wrong in (MARKER, MARKER * 40, f"rq_{MARKER}", [MARKER], {"token": MARKER}):
            if name != "key":
                yield good | {name: wrong}


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_no_call_repeats_or_stores_a_secret(route, log):
    method, _ = route
    world = a_world()
    good = ROUTES[route].good(world)
    body = b"" if good.body is None else dumps(good.body).encode()
    headers = {name.replace("_", "-"): value for name, value in good.headers.items()}
    address = f"/api/v1/{good.path}"
    client = Client(raise_request_exception=False)
    log.forget()

    def ask(raw: bytes, **named: str) -> Any:
        sent = (
            {"Content-Type": "application/json"} | headers | {name.replace("_", "-"): it for name, it in named.items()}
        )
        kind = sent.pop("Content-Type")
        return client.generic(method, address, raw, content_type=kind, headers=sent)

    answers = [
        ask(body, Authorization=text) for text in (f"Bearer {MARKER}", f"Bearer {KEY}", f"Basic {MARKER}", MARKER)
    ]
    assert {answer.status_code for answer in answers} == {ROUTES[route].no_valid_key}
    for caller in (world.worker, world.reviewer):
        own = {"Authorization": f"Bearer {caller.key}"}
        answers += [ask(body, **own, **HEADERS), ask(body, **own, Run_Lease=f"lse_1_{MARKER}")]
        answers += [ask(dumps(wrong).encode(), **own) for wrong in bodies_with_secrets(good.body)]
        answers += [ask(f'{{"token": "{MARKER}"'.encode(), **own), ask(f'"{MARKER}"'.encode(), **own)]
        joint = "&" if "?" in address else "?"
        address, before = f"{address}{joint}{QUERY}", address
        answers += [ask(b"", **own)]
        address = before
    assert_unseen(MARKER, log, *answers)


@pytest.mark.parametrize("route", [it for it in ROUTES if ROUTES[it].no_valid_key == 401], ids=" ".join)
def test_no_fault_behind_the_api_reports_what_was_sent(route, log, monkeypatch):
    method, _ = route
    good = ROUTES[route].good(a_world())
    log.forget()

    def breaks(text: str) -> None:
        posted = {"password": MARKER, "text": text}
        raise RuntimeError(f"planted in {len(posted)}")

    monkeypatch.setattr(authentication, "verify_key", breaks)
    headers = HEADERS | {"Authorization": f"Bearer {KEY}"}
    client = Client(raise_request_exception=False)
    body = dumps({"token": MARKER}).encode()
    answer = client.generic(method, f"/api/v1/{good.path}", body, content_type="application/json", headers=headers)
    assert answer.status_code == 500
    assert "planted in 2" in log.text()
    assert_unseen(MARKER, log, answer)


def test_a_task_that_breaks_keeps_no_local_value(log, monkeypatch):
    def breaks(**_: Any) -> None:
        token = MARKER
        raise RuntimeError(f"planted in {len(token)}")

    monkeypatch.setattr("runs.use_cases.reconcile_facts.revalidate_continuation", breaks)
    with pytest.raises(RuntimeError) as caught:
        tasks.check_continuation("cont_1")
    assert MARKER not in traceback_text(caught.value)


# --- what the product itself gives out -----------------------------------------------------------------------------------


def test_what_the_product_gives_out_once_is_nowhere_else(log):
    """Keys, leases, attempt tokens, secrets of webhooks, session keys: each is in the one answer that made it."""
    world = a_world()
    run, headers = world.run()
    begun = world.worker.put(f"runs/{run}/effects/order", {"name": "order", "arguments": {}}, **headers)
    outcome = {"attempt_token": begun["attempt_token"], "status": "applied", "receipt": {"no": "4711"}}
    world.worker.post(f"runs/{run}/effects/order/outcome", outcome)
    webhook = {"key": "k", "url": "http://127.0.0.1:8009/hooks", "events": ["run.started"]}
    made = world.worker.post("webhooks", webhook)
    interrupt, _ = world.answered()
    secrets = {
        "the key of the agent": world.worker.key.split("_", 2)[2],
        "the token of the person": world.reviewer.key.split("_", 2)[2],
        "the lease": headers["Run_Lease"],
        "the attempt": begun["attempt_token"],
        "the secret of the webhook": made["secret"],
    }
    paths = ("agents/me", f"runs/{run}", f"runs/{run}/timeline", f"runs/{run}/effects", f"interrupts/{interrupt}")
    readers = [world.worker.get(path).body for path in (*paths, "webhooks", "deliveries", "events", "signals")]
    readers += [world.reviewer.get(path).body for path in ("runs", "interrupts", f"interrupts/{interrupt}")]
    owner = builders.a_person("own@example.org", "agent-owners", "operators")
    owner.is_staff = True
    owner.save()
    client = desk.signed_in(owner)
    pages = [
        client.get(path).text for path in ("/", f"/runs/{run}", f"/interrupts/{interrupt}", "/dead-letters", "/agents")
    ]
    pages += [client.get(address).text for address in sorted(set(admin_addresses())) if "logout" not in address]
    everything = "\n".join([*map(str, readers), *pages, log.text(), stored()])
    for what, secret in secrets.items():
        assert len(secret) > 20
        assert secret not in everything, what


def test_a_session_is_named_by_its_row_and_its_cookie_alone(log):
    client = desk.signed_in(builders.a_reviewer())
    key = client.cookies["sessionid"].value
    answers = [client.get(path) for path in ("/", "/runs", "/expired", "/account/password/")]
    for answer in answers:
        answer.cookies.clear()
        assert key not in answer_text(answer)
    assert key not in log.text()
    assert stored().count(key) == 1
    caches["process"].clear()
    client.get("/")
    assert stored().count(key) == 2, "its row, and the one in the person's list of sessions, which can end it"
