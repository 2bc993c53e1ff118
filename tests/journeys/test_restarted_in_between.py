"""A page that was opened before every process was killed is answered after they were started again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.own_processes import (
    environment_for,
    eventually,
    free_port,
    make_migrated_database,
    query,
    run_command,
    started,
)
from tests.reviewqueue.test_expiry_by_worker import make_interrupts

pytestmark = pytest.mark.django_db

HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
FORM = ("state_version", "content_digest", "request_key", "who", "csrfmiddlewaretoken")


def answers(browser: httpx.Client) -> bool:
    try:
        return browser.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def hidden(page: httpx.Response) -> dict[str, str]:
    return dict(HIDDEN.findall(page.text))


def sign_in(browser: httpx.Client, person: str, password: str) -> None:
    token = hidden(browser.get("/account/login/"))["csrfmiddlewaretoken"]
    said = {"login": person, "password": password, "csrfmiddlewaretoken": token}
    assert browser.post("/account/login/", data=said).status_code == 302


@pytest.mark.slow
def test_a_form_opened_before_a_restart_counts_after_it_but_not_from_strangers(tmp_path: Path):
    """CASES C047: no state is in a process's memory; the first click counts, and every click gets an answer."""
    address, log, port = make_migrated_database(tmp_path), tmp_path / "log", free_port()
    environment = environment_for(address, PORT=str(port), WEB_PROCESSES="1")
    make_interrupts(address, 2, within=86_400)
    people = {}
    for person, queue in (("bo@example.org", "engineering"), ("eve@example.org", "finance")):
        if queue == "finance":
            run_command("add_queue", queue, "--owner", "finance-owners", environment=environment)
        added = run_command(
            "add_person", person, "--role", "reviewer", "--queue", queue, "--json", environment=environment
        )
        people[person] = json.loads(added)["password"]
    base = f"http://127.0.0.1:{port}"
    with (
        httpx.Client(base_url=base, trust_env=False, timeout=60) as bo,
        httpx.Client(base_url=base, trust_env=False, timeout=60) as eve,
    ):
        with started("web", environment=environment, log=log):
            eventually(lambda: answers(bo), within=90, log=log)
            sign_in(bo, "bo@example.org", people["bo@example.org"])
            sign_in(eve, "eve@example.org", people["eve@example.org"])
            drawn = hidden(bo.get("/interrupts/int_copy1"))
        form = {name: drawn[name] for name in FORM} | {"verdict": "approve", "act": "approve"}
        with started("web", environment=environment, log=log):
            eventually(lambda: answers(bo), within=90, log=log)
            bo.cookies.set("next", "offered")  # the receipt, not the next request
            done = bo.post("/interrupts/int_copy1", data=form)
            assert (done.status_code, done.headers["Location"][:11]) == (302, "/decisions/")
            mine = {"csrfmiddlewaretoken": eve.cookies["csrftoken"]}
            refused = eve.post("/interrupts/int_copy2", data=form | mine)
    assert refused.status_code == 404
    assert "<h1" in refused.text
    statuses = query(
        address, "SELECT public_id, status FROM runs_interrupt WHERE public_id LIKE 'int_copy%' ORDER BY id"
    )
    assert statuses == [("int_copy1", "answered"), ("int_copy2", "waiting")]
