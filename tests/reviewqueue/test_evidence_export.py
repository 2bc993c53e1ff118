"""Evidence files, and the verifier that finds what was changed in one: it knows nothing but the file.

Each change is made twice: as it is, and with the digest of the file computed again, as a careful forger does.
"""

from __future__ import annotations

import hashlib
import io
import runpy
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client

from ledger import clock
from ledger.datetimes import format_datetime
from ledger.digests import canonical
from ledger.exact_json import dumps, parse
from reviewqueue.operations.doctor import history_integrity
from reviewqueue.queries import evidence_export
from reviewqueue.queries.evidence_export import EvidenceFile
from runs.models import Decision, Interrupt, Run
from runs.use_cases import amend_interrupt
from runs.use_cases.amend_interrupt import Amendment
from tests import builders
from tests.api.calls import a_reviewer_client
from tests.reviewqueue.test_tampering import Sample, a_sample, write
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

VERIFIER = Path(settings.ROOT) / "static" / "verify_evidence.py"
MAIN: Callable[[list[str]], int] = runpy.run_path(str(VERIFIER))["main"]

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
    content = file_of(of_run(a_sample()))
    hostile = [b"", b"\xff\xfe\x00", b"[" * 100_000, b"{}\n", b'{"line":"main"}\n', b'{"line":"end"}\n', content * 2]
    hostile += [content.replace(b'"seq":1', b'"seq":1e999999999', 1), b'{"line":"evidence","line":"evidence"}\n']
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
    delete_line(lines)
    assert "is missing" in verify(file_of(lines))[1]


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


def test_a_run_that_changes_while_it_is_copied_is_copied_again_and_at_last_locked(verify, monkeypatch):
    sample = a_sample()
    copied, lines_of_copy = [], evidence_export._RunCopy.lines

    def changing(copy: Any) -> Any:
        copied.append(copy.run.timeline_seq)
        yield from lines_of_copy(copy)
        if len(copied) <= evidence_export.TRIES:
            Run.objects.filter(pk=copy.run.pk).update(timeline_seq=copy.run.timeline_seq + 1)
            if len(copied) == evidence_export.TRIES:
                Run.objects.filter(pk=copy.run.pk).update(timeline_seq=copied[0])

    monkeypatch.setattr(evidence_export._RunCopy, "lines", changing)
    assert verify(file_of(of_run(sample)))[0] == 0
    assert len(copied) == evidence_export.TRIES + 1


# --- ways to get a file -----------------------------------------------------------------------------------------------


def test_the_pages_and_the_api_send_the_file_to_who_can_read_the_run(verify):
    sample = a_sample()
    run, decision = sample.done.run, Decision.objects.get(interrupt__run=sample.done.run)
    reader = builders.a_person("kim@example.org", "engineering-auditors")
    browser, api = Client(), a_reviewer_client(reader)
    browser.force_login(reader)
    for page, link in ((f"/runs/{run.public_id}", "This run"), (f"/decisions/{decision.public_id}", "This decision")):
        assert f'href="{page}/evidence" download' in browser.get(page).content.decode(), link
        sent = browser.get(f"{page}/evidence")
        assert sent["Content-Type"] == "application/octet-stream"
        assert sent["Content-Disposition"] == f'attachment; filename="{page.rpartition("/")[2]}.jsonl"'
        content = sent.content
        assert verify(content)[0] == 0
        by_api = api.get(f"{page[1:]}/evidence").body
        assert by_api.split(b"\n")[1:-2] == content.split(b"\n")[1:-2]  # but for the time it was made


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
        assert said.startswith(f"{runs} runs, ")
    for wrong in (["--run", "run_0"], ["--decision", "dec_0"], ["--period", "x", "y"], ["--period", *period[::-1]]):
        with pytest.raises(CommandError):
            call_command("export_evidence", *wrong)


def test_a_request_names_its_policy_in_the_events(verify):
    interrupt: Interrupt = builders.a_waiting_interrupt()
    lines = lines_of(evidence_export.evidence_of_run(None, interrupt.run.public_id))
    lines.remove(first(lines, "policy"))
    assert "the policy of interrupt:int_" in verify(file_of(lines))[1]
