"""Evidence files, and the verifier that finds what was changed in one: it knows nothing but the file.

Each change is made twice: as it is, and with the digest of the file computed again, as a careful forger does.
"""

from __future__ import annotations

import errno
import hashlib
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from ledger import clock
from ledger.datetimes import format_datetime
from ledger.digests import canonical
from ledger.exact_json import dumps, parse
from reviewqueue import drafts
from reviewqueue.operations.doctor import history_integrity
from reviewqueue.queries import evidence_export
from reviewqueue.queries.evidence_export import EvidenceFile
from runs.models import Decision, Interrupt, Run
from runs.use_cases import amend_interrupt
from runs.use_cases.amend_interrupt import Amendment
from tests import builders
from tests.api.calls import a_reviewer_client
from tests.reviewqueue.test_tampering import Sample, a_sample, write
from tests.standing_rule_builders import a_decided_refund
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

VERIFIER = Path(settings.ROOT) / "static" / "verify_evidence.py"
PROGRAM = runpy.run_path(str(VERIFIER))
MAIN: Callable[[list[str]], int] = PROGRAM["main"]

Line = dict[str, Any]


def lines_of(evidence: EvidenceFile) -> list[Line]:
    return [parse(piece) for piece in evidence.pieces()]


def of_run(sample: Sample) -> list[Line]:
    return lines_of(evidence_export.evidence_of_run(None, sample.done.run.public_id))


def file_of(lines: list[Line], *, sealed: bool = True) -> bytes:
    """Return a file; ``sealed``: its last line has the digest and number of the lines before it."""
    pieces = [dumps(line).encode() + b"\n" for line in lines]
    if sealed and lines[-1]["line"] == "end":
        digest = hashlib.sha256(b"".join(pieces[:-1])).hexdigest()
        pieces[-1] = dumps({"line": "end", "lines": len(lines) - 1, "sha256": digest}).encode() + b"\n"
    return b"".join(pieces)


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def verified(content: bytes, anchors: str = "") -> tuple[int, str]:
        path, kept = tmp_path / "evidence.jsonl", tmp_path / "anchors.jsonl"
        path.write_bytes(content)
        kept.write_text(anchors)
        status = MAIN([str(path), *(["--anchors", str(kept)] if anchors else [])])
        return status, capsys.readouterr().out

    return verified


def first(lines: list[Line], kind: str, name: str = "") -> Line:
    return next(line for line in lines if line["line"] == kind and line.get("name", "").startswith(name))


# --- ten changes ------------------------------------------------------------------------------------------------------


def change_answer(lines: list[Line]) -> None:
    first(lines, "record", "decision")["answer"]["message"] = "I agree."


def change_time(lines: list[Line]) -> None:
    first(lines, "record", "decision")["parts"][""]["created_at"] = "2026-01-01T00:00:00.000000+00:00"


def change_person(lines: list[Line]) -> None:
    first(lines, "record", "decision")["by"] = "ben@example.org"


def change_policy_version(lines: list[Line]) -> None:
    """The policy's own digest is computed again: the events name the policy."""
    policy = first(lines, "policy")
    policy["version"] += 1
    policy["record"]["content"]["version"] += 1
    policy["digest"] = "rq1:" + hashlib.sha256(canonical(policy["record"]).encode()).hexdigest()


def change_order(lines: list[Line]) -> None:
    places = [place for place, line in enumerate(lines) if line["line"] == "event"]
    lines[places[1]], lines[places[2]] = lines[places[2]], lines[places[1]]


def delete_line(lines: list[Line]) -> None:
    lines.remove(first(lines, "record", "decision"))


def insert_line(lines: list[Line]) -> None:
    forged = parse(dumps(first(lines, "record", "decision")))
    forged["name"] = "decision:dec_1"
    forged["parts"][""]["public_id"] = "dec_1"
    lines.insert(lines.index(first(lines, "record", "decision")) + 1, forged)


def change_digest(lines: list[Line]) -> None:
    event = [line for line in lines if line["line"] == "event"][-1]
    event["digest"] = "rq1:" + "0" * 64


def cut_off(lines: list[Line]) -> None:
    while lines[-1]["line"] != "record":
        lines.pop()


def change_proposal(lines: list[Line]) -> None:
    first(lines, "record", "interrupt")["versions"][-1]["shown"]["proposal"]["arguments"]["amount"] = "1.00"


def delete_event(lines: list[Line]) -> None:
    lines.remove([line for line in lines if line["line"] == "event"][-1])


def change_what_an_event_is_about(lines: list[Line]) -> None:
    first(lines, "event")["refs"] = {"initiator": "ben@example.org"}


def change_permitted_call(lines: list[Line]) -> None:
    first(lines, "record", "permit")["call"]["arguments"]["amount"] = "1.00"


def add_after_the_end(lines: list[Line]) -> None:
    lines.append(lines[1])


def hide_a_verdict(lines: list[Line]) -> None:
    """A mask of nothing must not stop the comparison of the record."""
    decision = first(lines, "record", "decision")
    decision["parts"][""]["verdict"] = decision["answer"]["verdict"] = "reject"
    decision["masked"] = ["/parts//x", "/answer/x"]


def hide_a_column(lines: list[Line]) -> None:
    """A column of a decision is no JSON of an agent, so nothing below it can be masked."""
    decision = first(lines, "record", "decision")
    decision["parts"][""] |= {"created_at": "2026-01-01T00:00:00.000000+00:00", "probe": {"token": "[masked]"}}
    decision["masked"] = ["/parts//probe/token"]


def hide_what_was_shown(lines: list[Line]) -> None:
    request = first(lines, "record", "interrupt")
    request["versions"][0]["shown"] |= {"title": "Order two", "token": "[masked]"}
    request["masked"] = ["/versions/0/shown/token"]


def hide_a_value_of_another_name(lines: list[Line]) -> None:
    permit = first(lines, "record", "permit")
    permit["call"]["arguments"]["amount"] = "[masked]"
    permit["masked"] = ["/call/arguments/amount"]


def select_nothing(lines: list[Line]) -> None:
    run = first(lines, "run")
    run.pop("left_out")
    run["selected"] = []
    lines[:] = [line for line in lines if line["line"] != "record"]


def name_another_run(lines: list[Line]) -> None:
    lines[0]["about"]["run"] = "run_0"


def delete_the_run(lines: list[Line]) -> None:
    lines[:] = [lines[0], *lines[-2:]]


FOUND: dict[Callable[[list[Line]], None], str] = {
    change_answer: "the answer of decision:dec_",
    change_time: "was changed",
    change_person: "the person of decision:dec_",
    change_policy_version: "the policy of interrupt:int_",
    change_order: "follows event",
    delete_line: "is missing",
    insert_line: "was inserted",
    change_digest: "was changed",
    cut_off: "the file was cut off",
    change_proposal: "what version 1 of interrupt:int_",
    delete_event: "the chain of events ends elsewhere",
    change_what_an_event_is_about: "event 1 was changed",
    change_permitted_call: "the call of permit:per_",
    add_after_the_end: "after the end",
    hide_a_verdict: "/parts//x of decision:dec_",
    hide_a_column: "/parts//probe/token of decision:dec_",
    hide_what_was_shown: "/versions/0/shown/token of interrupt:int_",
    hide_a_value_of_another_name: "/call/arguments/amount of permit:per_",
    select_nothing: "only the file of a decision can select records",
    name_another_run: "the file is about another run",
    delete_the_run: "the run that the file is about is missing",
}


def test_the_verifier_finds_each_change_also_where_the_files_own_digest_was_computed_again(verify):
    lines = of_run(a_sample())
    assert verify(file_of(lines)) == (0, f"{COUNTED}; 0 differences; no anchors were given\n")
    for change, found in FOUND.items():
        changed = parse(dumps(lines))
        change(changed)
        status, said = verify(file_of(changed, sealed=True))
        assert status == 1, change.__name__
        assert found in said, (change.__name__, said)
        status, said = verify(file_of(changed, sealed=False))
        assert status == 1, change.__name__
        if changed[-1]["line"] == "end":
            assert "the file differs from its own digest" in said or "lines before its end" in said


COUNTED = "1 runs, 6 events, 7 records"


def test_one_changed_byte_in_a_member_that_no_event_covers_is_found_by_the_files_digest(verify):
    content = file_of(of_run(a_sample()))
    status, said = verify(content.replace(b'"title":"A purchase"', b'"title":"A purchasE"', 1))
    assert status == 1
    assert "the file differs from its own digest" in said


def test_a_chain_that_was_computed_again_from_end_to_end_is_found_by_an_anchor(verify):
    sample = a_sample()
    anchors = "".join(
        dumps({"run": anchor.run, "seq": anchor.seq, "head": anchor.head}) + "\n"
        for anchor in history_integrity.anchors()
    )
    lines = of_run(sample)
    assert verify(file_of(lines), anchors)[0] == 0
    prev = ""
    for line in lines:
        if line["line"] == "event":
            line["actor"], line["prev"] = line["actor"].replace("ana", "ben"), prev
            covered = {name: value for name, value in line.items() if name not in ("line", "digest")}
            line["digest"] = prev = "rq1:" + hashlib.sha256(canonical(covered).encode()).hexdigest()
    first(lines, "record", "decision")["by"] = "ben@example.org"
    first(lines, "anchor")["head"] = prev
    assert verify(file_of(lines))[0] == 0  # nothing inside the file differs
    status, said = verify(file_of(lines), anchors)
    assert status == 1
    assert "is not the one of the anchor" in said


def test_the_verifier_runs_alone_and_reads_any_bytes(tmp_path):
    """The program is started by itself, isolated, with files that are no evidence."""
    lines = of_run(a_sample())
    content = file_of(lines)
    hostile = [b"", b"\xff\xfe\x00", b"[" * 100_000, b"{}\n", b'{"line":"main"}\n', b'{"line":"end"}\n', content * 2]
    hostile += [content.replace(b'"seq":1', b'"seq":1e999999999', 1), b'{"line":"evidence","line":"evidence"}\n']
    first(lines, "record", "interrupt")["versions"] = []
    first(lines, "record", "decision")["masked"] = [""]
    hostile.append(file_of(lines))
    for place, given in enumerate([content, *hostile]):
        path = tmp_path / f"{place}.jsonl"
        path.write_bytes(given)
        ran = subprocess.run(
            [sys.executable, "-I", str(VERIFIER), str(path)], capture_output=True, text=True, timeout=60
        )
        assert (ran.returncode, ran.stderr) == (0 if place == 0 else 1, ""), (place, ran)
    missing = subprocess.run([sys.executable, "-I", str(VERIFIER), "no"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr


# --- what a file has --------------------------------------------------------------------------------------------------


def test_a_file_says_what_was_shown_to_whom_and_under_which_rules(verify):
    sample = a_sample()
    lines = of_run(sample)
    decision, request = first(lines, "record", "decision"), first(lines, "record", "interrupt")
    assert decision["by"] == "ana@example.org"
    assert decision["answer"] == {"verdict": "approve", "message": ""}
    assert request["versions"][-1]["shown"]["proposal"]["arguments"] == builders.CALL["arguments"]
    assert first(lines, "policy")["reason"] == "approval.action"
    kinds = {line["name"].partition(":")[0] for line in lines if line["line"] == "record"}
    assert kinds == {"checkpoint", "interrupt", "decision", "permit", "effect", "report"}


def test_a_decisions_file_has_its_request_its_votes_and_the_permitted_call(verify):
    decision = Decision.objects.get(interrupt__run=a_sample().done.run)
    lines = lines_of(evidence_export.evidence_of_decision(None, decision))
    assert verify(file_of(lines))[0] == 0
    kinds = [line["name"].partition(":")[0] for line in lines if line["line"] == "record"]
    assert kinds == ["interrupt", "decision", "permit", "effect", "report"]
    for kind in ("decision", "report"):
        without = [line for line in lines if not line.get("name", "").startswith(kind)]
        status, said = verify(file_of(without))
        assert (status, f"{kind}:" in said, "is missing" in said) == (1, True, True)
    other = parse(dumps(lines))
    other[0]["about"]["decision"] = "dec_0"
    assert "it must select this decision" in verify(file_of(other))[1]


def test_a_decision_of_a_standing_rule_names_the_rule(verify):
    rule, decision = a_decided_refund()
    for file in (
        evidence_export.evidence_of_decision(None, decision),
        evidence_export.evidence_of_run(None, decision.interrupt.run.public_id),
    ):
        lines = lines_of(file)
        assert verify(file_of(lines))[0] == 0
        made, use = first(lines, "standing_rule"), first(lines, "record", "rule_use")
        assert (made["rule"], made["made_by"], use["rule"]) == (rule.public_id, "lea@example.org", rule.public_id)
        made["record"]["content"]["max_uses"] = 51
        assert "the standing rule was changed" in verify(file_of(lines))[1]


def test_a_decision_about_another_request_with_the_same_content_is_found(verify):
    started, ana = builders.a_running_run(), builders.a_reviewer()
    asked = builders.suspend_run(started, builders.a_wait("one"), builders.a_wait("two"))
    for interrupt in asked.interrupts:
        builders.decide(interrupt, ana)
    lines = lines_of(evidence_export.evidence_of_run(None, started.run.public_id))
    assert verify(file_of(lines))[0] == 0
    first(lines, "record", "decision")["interrupt"] = asked.interrupts[1].public_id
    status, said = verify(file_of(lines))
    assert status == 1
    assert "the request of decision:dec_" in said


def test_runs_of_the_anchors_that_a_period_does_not_have_are_counted(verify):
    sample = a_sample()
    period = {"since": clock.now() - timedelta(hours=1), "until": clock.now() + timedelta(hours=1)}
    lines = lines_of(evidence_export.evidence_of_period(made_by="ops@example.org", **period))
    anchors = "".join(
        dumps({"run": anchor.run, "seq": anchor.seq, "head": anchor.head}) + "\n"
        for anchor in history_integrity.anchors()
    )
    assert "are not in this file" not in verify(file_of(lines), anchors)[1]
    start = next(place for place, line in enumerate(lines) if line.get("run") == sample.waiting.run.public_id)
    end = next(place for place, line in enumerate(lines) if place > start and line["line"] == "anchor")
    status, said = verify(file_of([*lines[:start], *lines[end + 1 :]]), anchors)
    assert status == 0
    assert "1 runs of the file of anchors are not in this file" in said


def test_no_text_of_a_file_controls_the_terminal(verify):
    lines = of_run(a_sample())
    first(lines, "record", "decision")["name"] = "decision:\x1b]0;all is well\x07\u202e"
    said = verify(file_of(lines))[1]
    assert "\\x1b]0;all is well\\x07\\u202e" in said
    assert said.replace("\n", "").isprintable()


def test_edited_and_amended_versions_are_in_the_file_and_verified(verify):
    builders.a_policy(quorum=2)
    ana, ben, cleo = (builders.a_reviewer(f"{name}@example.org") for name in ("ana", "ben", "cleo"))
    interrupt = builders.a_waiting_interrupt()
    amend_interrupt.amend_open_interrupt(
        agent=interrupt.agent, interrupt_id=interrupt.public_id, state_version=1, amendment=Amendment(title="Another")
    )
    builders.decide(interrupt, ana, version=2)
    builders.decide(interrupt, ben, "edit", version=2, arguments={"supplier": "S-18", "amount": "1"})
    builders.decide(interrupt, cleo, "edit", version=3, arguments={"supplier": "S-19", "amount": "2"})
    builders.decide(interrupt, ana, version=4)
    lines = lines_of(evidence_export.evidence_of_run(None, interrupt.run.public_id))
    assert verify(file_of(lines)) == (0, "1 runs, 7 events, 8 records; 0 differences; no anchors were given\n")
    versions = first(lines, "record", "interrupt")["versions"]
    assert [version["shown"]["title"] for version in versions][:2] == ["Order the hoist", "Another"]
    for place in range(len(versions)):
        changed = parse(dumps(lines))
        first(changed, "record", "interrupt")["versions"][place]["shown"]["message"] = "Just sign."
        assert verify(file_of(changed))[0] == 1, place


def test_a_record_that_was_changed_in_the_database_is_found_in_its_file(verify):
    sample = a_sample()
    with without_triggers():
        write(Decision.objects.get(interrupt__run=sample.done.run), message="I agree.")
    status, said = verify(file_of(of_run(sample)))
    assert status == 1
    assert "the answer of decision:dec_" in said


def test_values_of_members_that_are_named_like_a_secret_are_masked_and_the_verifier_says_so(verify):
    call = {
        "name": "notify",
        "arguments": {"to": "ana", "api_key": "sk-1234", "list": [{"password": {"a": "sk-1234"}}]},
    }
    schema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    started = builders.a_running_run()
    asked = builders.suspend_run(started, builders.a_wait(proposal=call | {"schema": schema}))
    [interrupt] = asked.interrupts
    builders.decide(interrupt, builders.a_reviewer())
    content = b"".join(evidence_export.evidence_of_run(None, started.run.public_id).pieces())
    assert b"sk-1234" not in content
    status, said = verify(content)
    assert status == 0
    assert "values are masked" in said
    shown = first([parse(line) for line in content.splitlines()], "record", "interrupt")["versions"][0]["shown"]
    assert shown["proposal"]["arguments"] == {"to": "ana", "api_key": "[masked]", "list": [{"password": "[masked]"}]}
    assert shown["proposal"]["schema"] == schema


def test_values_that_a_schema_states_for_a_property_named_like_a_secret_are_masked(verify):
    stated = {"type": "string", "default": "hunter2", "examples": ["hunter2"]}
    for secret in (
        {"password": stated},
        {"password": {"anyOf": [{"const": "hunter2"}, {"enum": ["hunter2"]}]}},
        {"login": {"type": "object", "default": {"password": "hunter2"}}},
        {"password": {"$ref": "#/$defs/text"}},
    ):
        schema = {"type": "object", "properties": {"color": {"type": "string", "default": "red"}, **secret}}
        if "$ref" in str(secret):
            schema["$defs"] = {"text": stated}
        started = builders.a_running_run()
        builders.suspend_run(started, builders.an_input_wait(input_schema=schema))
        content = b"".join(evidence_export.evidence_of_run(None, started.run.public_id).pieces())
        assert b"hunter2" not in content, secret
        assert (b'"red"' in content) is ("$ref" not in str(secret))
        status, said = verify(content)
        assert (status, "values are masked" in said) == (0, True), (secret, said)


def test_the_verifier_knows_the_names_of_secrets():
    assert PROGRAM["SECRET"] == drafts._SECRET
    assert PROGRAM["BEFORE_SECRET"] == drafts._BEFORE_SECRET
    for name in ("key", "apiKey", "api_key", "request_key", "zip_code", "code", "SSHKey", "tokens", "Token", "", "1"):
        assert PROGRAM["is_secret_name"](name) == drafts.is_secret_name(name), name


def test_a_reader_gets_only_the_requests_that_they_can_read_and_the_file_says_what_it_leaves_out(verify):
    builders.a_queue("finance")
    builders.change_policies(any_queue=True)
    started = builders.a_running_run()
    asked = builders.suspend_run(
        started, builders.a_wait("one"), builders.a_wait("two", title="Salary of Tom", wish={"queue": "finance"})
    )
    fred, ana = builders.a_reviewer("fred@example.org", "finance"), builders.a_reviewer()
    builders.decide(asked.interrupts[1], fred)
    with pytest.raises(Exception, match="already"):
        builders.decide(asked.interrupts[1], builders.a_reviewer("gus@example.org", "finance"), "reject")
    content = b"".join(evidence_export.evidence_of_run(ana, started.run.public_id).pieces())
    assert b"Salary of Tom" not in content
    assert b"Salary of Tom" in b"".join(evidence_export.evidence_of_run(fred, started.run.public_id).pieces())
    status, said = verify(content)
    assert status == 0
    assert "4 records were left out" in said
    assert f"{first([parse(line) for line in content.splitlines()], 'run')['left_out'][0]} was left out" in said


def test_a_period_has_the_runs_that_were_open_in_it(verify):
    sample, now = a_sample(), clock.now()
    early, hour = Run.objects.order_by("pk")[:2], timedelta(hours=1)
    Run.objects.filter(pk=early[0].pk).update(created_at=now - 9 * hour)
    Run.objects.filter(pk=early[1].pk).update(status="completed", created_at=now - 9 * hour, ended_at=now - 5 * hour)

    def runs_of(since: float, until: float) -> set[str]:
        words = {"since": now - since * hour, "until": now - until * hour}
        lines = lines_of(evidence_export.evidence_of_period(made_by="ops@example.org", **words))
        assert verify(file_of(lines))[0] == 0
        return {line["run"] for line in lines if line["line"] == "run"}

    assert runs_of(20, 10) == set()
    assert runs_of(8, 4) == {early[0].public_id, early[1].public_id}
    assert runs_of(4, 3) == {early[0].public_id}
    assert sample.waiting.run.public_id in runs_of(4, -1)


@pytest.mark.django_db(transaction=True)
def test_a_run_is_copied_as_of_one_time_and_stops_no_writer(verify, monkeypatch):
    interrupt, ana = builders.a_waiting_interrupt(), builders.a_reviewer()
    lines_of_copy = evidence_export._RunCopy.lines

    def decide_elsewhere() -> None:
        builders.decide(interrupt, ana)
        connections.close_all()

    def changing(copy: Any) -> Any:
        lines = lines_of_copy(copy)
        yield next(lines)
        with ThreadPoolExecutor(1) as other:
            other.submit(decide_elsewhere).result(timeout=60)
        yield from lines

    monkeypatch.setattr(evidence_export._RunCopy, "lines", changing)
    lines = lines_of(evidence_export.evidence_of_run(None, interrupt.run.public_id))
    assert verify(file_of(lines))[0] == 0
    assert not [line for line in lines if line.get("name", "").startswith("decision")]
    assert Decision.objects.filter(interrupt=interrupt).exists()
    monkeypatch.undo()
    assert first(lines_of(evidence_export.evidence_of_run(None, interrupt.run.public_id)), "record", "decision")


# --- ways to get a file -----------------------------------------------------------------------------------------------


def test_the_pages_and_the_api_send_the_file_to_who_can_read_the_run(verify):
    sample = a_sample()
    run, decision = sample.done.run, Decision.objects.get(interrupt__run=sample.done.run)
    reader = builders.a_person("kim@example.org", "engineering-auditors")
    browser, api = Client(), a_reviewer_client(reader)
    browser.force_login(reader)
    for page, link in ((f"/runs/{run.public_id}", "This run"), (f"/decisions/{decision.public_id}", "This decision")):
        assert re.search(rf'href="{page}/evidence"\s+download', browser.get(page).content.decode()), link
        sent = browser.get(f"{page}/evidence")
        assert sent["Content-Type"] == "application/octet-stream"
        assert sent["Content-Disposition"] == f'attachment; filename="{page.rpartition("/")[2]}.jsonl"'
        content = sent.content
        assert verify(content)[0] == 0
        by_api = api.get(f"{page[1:]}/evidence").body
        assert by_api.split(b"\n")[1:-2] == content.split(b"\n")[1:-2]  # but for the time it was made


def test_a_head_copies_nothing(monkeypatch):
    run, reader = a_sample().done.run, builders.a_person("kim@example.org", "engineering-auditors")
    monkeypatch.setattr(EvidenceFile, "copy", lambda evidence: pytest.fail("it was copied"))
    browser = Client()
    browser.force_login(reader)
    for sent in (
        browser.head(f"/runs/{run.public_id}/evidence"),
        Client(headers={"Authorization": f"Bearer {a_reviewer_client(reader).key}"}).head(
            f"/api/v1/runs/{run.public_id}/evidence"
        ),
    ):
        assert (sent.status_code, sent["Content-Type"]) == (200, "application/octet-stream")
        assert "Content-Length" not in sent


def test_a_person_makes_one_file_at_a_time(monkeypatch):
    run, reader = a_sample().done.run, builders.a_person("kim@example.org", "engineering-auditors")
    other = a_reviewer_client(builders.a_person("lou@example.org", "engineering-auditors"))
    api, browser, copy, second = a_reviewer_client(reader), Client(), EvidenceFile.copy, []
    browser.force_login(reader)

    def copying(evidence: EvidenceFile) -> Any:
        if not second:
            second.append(None)
            second.append(api.get(f"runs/{run.public_id}/evidence"))
            second.append(browser.get(f"/runs/{run.public_id}/evidence"))
            second.append(other.get(f"runs/{run.public_id}/evidence"))
        return copy(evidence)

    monkeypatch.setattr(EvidenceFile, "copy", copying)
    assert api.get(f"runs/{run.public_id}/evidence").status == 200
    _, by_api, by_page, of_other = second
    assert (by_api.status, by_api["code"]) == (503, "busy")
    assert (by_page.status_code, by_page["Content-Type"]) == (503, "text/plain")
    assert of_other.status == 200
    assert api.get(f"runs/{run.public_id}/evidence").status == 200


def test_a_full_disk_is_answered_as_busy(monkeypatch):
    run, reader = a_sample().done.run, builders.a_person("kim@example.org", "engineering-auditors")

    def full(evidence: EvidenceFile) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield b""

    monkeypatch.setattr(EvidenceFile, "pieces", full)
    refused = a_reviewer_client(reader).get(f"runs/{run.public_id}/evidence")
    assert (refused.status, refused["code"]) == (503, "busy")
    assert "no space" in refused["detail"]


def test_only_operators_get_a_period_and_its_bounds_are_checked(verify):
    a_sample()
    ops = a_reviewer_client(builders.a_person("ops@example.org", "operators"))
    since, until, later = (format_datetime(clock.now() + timedelta(days=days)) for days in (-1, 1, 40))
    sent = ops.get(f"evidence?since={since}&until={until}")
    assert verify(sent.body) == (0, "5 runs, 19 events, 24 records; 0 differences; no anchors were given\n")
    for wrong in (
        f"since={since}",
        f"since={until}&until={since}",
        f"since={since}&until={later}",
        f"since=x&until={until}",
    ):
        assert ops.get(f"evidence?{wrong}").status == 422
    lead = a_reviewer_client(builders.a_person("lea@example.org", "engineering-leads"))
    assert lead.get(f"evidence?since={since}&until={until}")["code"] == "not_permitted"


def test_the_command_prints_a_file(verify):
    sample = a_sample()
    decision = Decision.objects.get(interrupt__run=sample.done.run)
    day = timedelta(days=1)
    period = [(clock.now() - day).isoformat(), (clock.now() + day).isoformat()]
    for asked, runs in (
        (["--run", sample.done.run.public_id], 1),
        (["--decision", decision.public_id], 1),
        (["--period", *period], Run.objects.count()),
    ):
        printed = io.StringIO()
        call_command("export_evidence", *asked, stdout=printed)
        status, said = verify(printed.getvalue().encode())
        assert status == 0
        assert f"{runs} runs, " in said
    for wrong in (["--run", "run_0"], ["--decision", "dec_0"], ["--period", "x", "y"], ["--period", *period[::-1]]):
        with pytest.raises(CommandError):
            call_command("export_evidence", *wrong)


def test_a_request_names_its_policy_in_the_events(verify):
    interrupt: Interrupt = builders.a_waiting_interrupt()
    lines = lines_of(evidence_export.evidence_of_run(None, interrupt.run.public_id))
    lines.remove(first(lines, "policy"))
    assert "the policy of interrupt:int_" in verify(file_of(lines))[1]
