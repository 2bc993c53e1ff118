"""Evidence files: a decision, a run or a period as JSON lines that anyone can verify offline (`verify_evidence.py`).

Each run has its whole chain of events, then the records that the chain covers with what their digests were computed
from. A run is copied to a temporary file in one snapshot of the database before it is sent. So memory is bounded by its
largest record, no row is locked, and no query runs while a slow reader receives it. The last line has the digest of all
lines before it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

from django.contrib.auth.models import AbstractUser
from django.db.models import Model, Q, QuerySet

from ledger import clock
from ledger.datetimes import format_datetime
from ledger.digests import digest
from ledger.errors import NotFound
from ledger.exact_json import ABSENT, dumps
from ledger.models import Effect, EffectReport
from ledger.row_digests import CONTENT, CoveredRow, column_as_json
from ledger.transactions import snapshot
from reviewqueue import permissions
from reviewqueue.drafts import is_secret_name
from runs.configuration_history import CREATED, KINDS
from runs.decisions import Answer, answer_schema
from runs.interrupt_requests import call_digest, content_digest
from runs.models import (
    Attachment,
    Checkpoint,
    ConfigurationRecord,
    Decision,
    Event,
    Interrupt,
    Permit,
    PlantedRequest,
    Policy,
    Revision,
    Run,
    StandingRule,
    StandingRuleUse,
)
from runs.schemas import keywords
from runs.states import VALID_DECISIONS, DecisionStatus

FORMAT = "reviewqueue-evidence-1"
#: In the place of a value whose member is named like a secret.
MASK = "[masked]"
_SCHEMA = re.compile(
    r"/versions/[0-9]+/(shown/(input_schema|proposal/schema)|columns/as_proposed/schema)|/parts/content/as_proposed/schema"
)
_SCHEMA_VALUES = frozenset({"default", "const", "enum", "examples"})
_SCHEMA_NAMES = keywords.BELOW_NAMED | keywords.HERE_NAMED | {"$defs"}

ROWS = 20  # read at once: a proposal can be large, and PgBouncer permits no cursor of the server
EVENTS = 200
IN_MEMORY = 1024 * 1024  # bytes
#: Decisions that each reader of the request can read; a refused one only its author.
_PUBLIC = (*VALID_DECISIONS, DecisionStatus.OVERTAKEN, DecisionStatus.REVOKED)

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The records of one run that a file has.

    ``interrupts`` and ``decisions``: primary keys; ``None``: all. ``is_part``: the file is about one decision, so its
    other records are not missing.
    """

    run: int
    interrupts: frozenset[int] | None = None
    decisions: frozenset[int] | None = None
    is_part: bool = False


@dataclass(frozen=True, kw_only=True)
class EvidenceFile:
    """What a file is about, and its runs."""

    name: str
    about: dict[str, Any]
    made_by: str
    selections: Iterable[Selection]

    def copy(self) -> IO[bytes]:
        """Return a temporary file with the lines, which needs neither memory nor the database while it is sent."""
        file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  the caller closes it
        try:
            file.writelines(self.pieces())
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def pieces(self) -> Iterator[bytes]:
        """Yield the lines of the file."""
        known, count = hashlib.sha256(), 0
        for piece in self._lines():
            known.update(piece)
            count += 1
            yield piece
        yield _line("end", {"lines": count, "sha256": known.hexdigest()})

    def _lines(self) -> Iterator[bytes]:
        made = {"made_at": format_datetime(clock.now()), "made_by": self.made_by}
        yield _line("evidence", {"format": FORMAT, "about": self.about} | made)
        for selection in self.selections:
            with _copied_run(selection) as copy:
                yield from copy
        newest = ConfigurationRecord.objects.order_by("-seq").values_list("seq", "digest").first()
        if newest is not None:
            yield _line("anchor", {"run": "configuration", "seq": newest[0], "head": newest[1]})


def evidence_of_decision(person: AbstractUser | None, decision: Decision) -> EvidenceFile:
    """Return the file of a decision that the person can read: its request, all votes, and the call that it permitted.

    ``person`` ``None``: the command.
    """
    votes = Decision.objects.filter(interrupt=decision.interrupt_id, status__in=_PUBLIC).values_list("pk", flat=True)
    run = Run.objects.values_list("pk", "public_id").get(interrupts=decision.interrupt_id)
    selection = Selection(
        run=run[0],
        interrupts=frozenset({decision.interrupt_id}),
        decisions=frozenset({decision.pk, *votes}),
        is_part=True,
    )
    about = {"decision": decision.public_id, "run": run[1]}
    name = f"{decision.public_id}.jsonl"
    return EvidenceFile(name=name, about=about, made_by=_made_by(person), selections=[selection])


def _made_by(person: AbstractUser | None) -> str:
    return "manage.py" if person is None else person.get_username()


def evidence_of_run(person: AbstractUser | None, run_id: str) -> EvidenceFile:
    """Return the file of a run. ``person`` ``None``: everything, for the command. Raises ``NotFound``."""
    runs = Run.objects.filter(public_id=run_id) if person is None else permissions.visible_run(person, run_id)
    run = runs.first()
    if run is None:
        raise NotFound
    return EvidenceFile(
        name=f"{run.public_id}.jsonl",
        about={"run": run.public_id},
        made_by=_made_by(person),
        selections=[Selection(run=run.pk) if person is None else _readable(person, run)],
    )


def evidence_of_period(*, since: datetime, until: datetime, made_by: str) -> EvidenceFile:
    """Return the file of every run that had begun before ``until`` and had not ended before ``since``."""
    about = {"since": format_datetime(since), "until": format_datetime(until)}
    name = f"evidence-{since:%Y-%m-%d}-{until:%Y-%m-%d}.jsonl"
    return EvidenceFile(name=name, about=about, made_by=made_by, selections=_runs_of_period(since, until))


def _runs_of_period(since: datetime, until: datetime) -> Iterator[Selection]:
    runs = Run.objects.filter(Q(ended_at=None) | Q(ended_at__gte=since), created_at__lt=until).order_by("pk")
    after = 0
    while found := list(runs.filter(pk__gt=after).values_list("pk", flat=True)[:EVENTS]):
        yield from (Selection(run=pk) for pk in found)
        after = found[-1]


def _readable(person: AbstractUser, run: Run) -> Selection:
    interrupts = permissions.visible_interrupts_of_run(person, run).values_list("pk", flat=True)
    readable = Decision.objects.filter(Q(status__in=_PUBLIC) | Q(by=person.pk), interrupt__in=list(interrupts))
    return Selection(
        run=run.pk,
        interrupts=frozenset(interrupts),
        decisions=frozenset(readable.values_list("pk", flat=True)),
    )


# --- one run ----------------------------------------------------------------------------------------------------------


def _copied_run(selection: Selection) -> IO[bytes]:
    """Return a temporary file with the lines of a run as of one time."""
    file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  the caller closes it
    try:
        with snapshot():
            run = Run.objects.select_related("agent", "initiator").get(pk=selection.run)
            file.writelines(_RunCopy(run=run, selection=selection).lines())
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


@dataclass(kw_only=True)
class _RunCopy:
    """The lines of one run. ``actors``: who recorded a decision; ``contents``: the digests of what requests showed."""

    run: Run
    selection: Selection
    actors: dict[str, str] = field(default_factory=dict)
    contents: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def lines(self) -> Iterator[bytes]:
        run, selection = self.run, self.selection
        names = sorted(self._selected_names()) if selection.is_part else sorted(self._left_out())
        initiator = None if run.initiator is None else run.initiator.get_username()
        about: dict[str, Any] = {"run": run.public_id, "agent": run.agent.slug, "title": run.title}
        about["initiator"] = initiator
        times = {"created_at": column_as_json(run.created_at), "ended_at": column_as_json(run.ended_at)}
        about |= {"status": run.status} | times | {"selected" if selection.is_part else "left_out": names}
        yield _line("run", about)
        for event in _pages(run.events.filter(seq__lte=run.timeline_seq), by="seq", size=EVENTS):
            self._remember(event)
            yield _line("event", event.covered() | {"digest": event.digest})
        interrupts = self._interrupts()
        for policy in Policy.objects.filter(pk__in=interrupts.order_by().values("policy")).order_by("pk"):
            yield from _policy_line(policy)
        if not selection.is_part:
            for checkpoint in _pages(Checkpoint.objects.filter(run=run).defer("state")):
                yield _record(checkpoint)
        related = interrupts.select_related("schema", "queue").prefetch_related("facts", "assignees__person")
        for interrupt in _pages(related):
            yield self._interrupt_line(interrupt)
        for decision in _pages(self._decisions().select_related("by", "interrupt")):
            yield self._decision_line(decision)
        for use in _pages(self._rule_uses().select_related("rule", "decision")):
            yield from _rule_line(use.rule)
            yield _record(use, {"rule": use.rule.public_id, "decision": use.decision.public_id})
        for planted in _pages(self._planted().select_related("interrupt", "planted_by")):
            yield _record(planted, {"interrupt": planted.interrupt.public_id, "by": planted.planted_by.get_username()})
        for attachment in _pages(self._attachments().select_related("interrupt")):
            about = {"interrupt": attachment.interrupt.public_id, "status": attachment.status}
            yield _record(attachment, about)
        for permit in _pages(self._permits()):
            yield _record(permit, {"call": permit.call})
        for effect in _pages(self._effects()):
            yield _record(effect, {"call": effect.call})
            for report in _reports(effect):
                yield _record(report)
        yield _line("anchor", {"run": run.public_id, "seq": run.timeline_seq, "head": run.timeline_head})

    def _interrupts(self) -> QuerySet[Interrupt]:
        chosen = self.selection.interrupts
        return self.run.interrupts.all() if chosen is None else self.run.interrupts.filter(pk__in=chosen)

    def _decisions(self) -> QuerySet[Decision]:
        chosen, found = self.selection.decisions, Decision.objects.filter(interrupt__run=self.run)
        return found if chosen is None else found.filter(pk__in=chosen)

    def _rule_uses(self) -> QuerySet[StandingRuleUse]:
        return StandingRuleUse.objects.filter(decision__in=self._decisions().values("pk"))

    def _planted(self) -> QuerySet[PlantedRequest]:
        """Return the planted requests that were disclosed."""
        return PlantedRequest.objects.filter(interrupt__in=self._interrupts().values("pk")).exclude(outcome="")

    def _attachments(self) -> QuerySet[Attachment]:
        return Attachment.objects.filter(interrupt__in=self._interrupts().values("pk")).exclude(added_at=None)

    def _permits(self) -> QuerySet[Permit]:
        return Permit.objects.filter(run=self.run, decision__in=self._decisions().values("pk"))

    def _effects(self) -> QuerySet[Effect]:
        effects = Effect.objects.filter(scope=self.run.public_id)
        return effects.filter(permit_ref__in=self._permits().values("public_id")) if self.selection.is_part else effects

    def _left_out(self) -> Iterator[str]:
        """Yield the names of the records that the reader cannot read."""
        hidden = self.run.interrupts.exclude(pk__in=self._interrupts().values("pk"))
        yield from _names("interrupt", hidden)
        decisions = Decision.objects.filter(interrupt__run=self.run).exclude(pk__in=self._decisions().values("pk"))
        yield from _names("decision", decisions)
        yield from _names("permit", Permit.objects.filter(run=self.run, decision__in=decisions.values("pk")))
        uses = StandingRuleUse.objects.filter(decision__in=decisions.values("pk"))
        yield from (f"rule_use:{name}" for name in uses.values_list("decision__public_id", flat=True))
        yield from _names(
            "planted_request", PlantedRequest.objects.filter(interrupt__in=hidden.values("pk")).exclude(outcome="")
        )
        files = Attachment.objects.filter(run=self.run, interrupt__in=hidden.values("pk")).exclude(added_at=None)
        yield from _names("attachment", files)

    def _selected_names(self) -> Iterator[str]:
        yield from _names("interrupt", self._interrupts())
        yield from _names("decision", self._decisions())
        uses = self._rule_uses().values_list("decision__public_id", flat=True)
        yield from (f"rule_use:{name}" for name in uses)
        yield from _names("planted_request", self._planted())
        yield from _names("attachment", self._attachments())
        yield from _names("permit", self._permits())
        for effect in _pages(self._effects()):
            yield effect.covered_as
            yield from (report.covered_as for report in _reports(effect))

    def _remember(self, event: Event) -> None:
        for name, value in (event.row_digests or {}).items():
            if name.startswith("decision:"):
                self.actors.setdefault(name, event.actor)
            elif name.startswith("interrupt:") and name.endswith(f".{CONTENT}"):
                self.contents[name].add(value)

    def _interrupt_line(self, interrupt: Interrupt) -> bytes:
        now: dict[str, Any] = {"title": interrupt.title, "message": interrupt.message, "proposal": interrupt.proposal}
        now["facts"] = {fact.name: fact.value for fact in interrupt.facts.all()}
        now |= {"evidence": interrupt.evidence, "input_schema": answer_schema(interrupt)}
        before = Revision.objects.filter(interrupt=interrupt).order_by("state_version")
        versions = [self._earlier_version(interrupt, revision, now) for revision in before]
        columns = {name: column_as_json(getattr(interrupt, name)) for name in interrupt.covered_parts[CONTENT]}
        versions.append({"state_version": interrupt.state_version, "shown": now, "columns": columns})
        shown = {
            "queue": None if interrupt.queue is None else interrupt.queue.slug,
            "assignees": [assigned.person.get_username() for assigned in interrupt.assignees.all()],
            "created_at": column_as_json(interrupt.created_at),
            "deadline": column_as_json(interrupt.deadline),
            "versions": versions,
        }
        return _record(interrupt, shown)

    def _earlier_version(self, interrupt: Interrupt, revision: Revision, now: dict[str, Any]) -> dict[str, Any]:
        """Return an earlier version and the columns that its digest covered.

        A revision does not store ``as_proposed``: it is the agent's own proposal if a vote had edited the call.
        """
        shown = {"title": revision.title, "message": revision.message, "proposal": revision.proposal}
        shown |= {"facts": {fact["name"]: fact["value"] for fact in revision.facts}}
        shown |= {"evidence": now["evidence"], "input_schema": now["input_schema"]}
        columns = {
            "title": revision.title,
            "content_digest": content_digest(**shown),
            "call_digest": call_digest(revision.proposal),
            "as_proposed": None,
        }
        proposed = Revision.objects.filter(interrupt=interrupt, state_version__lt=revision.state_version)
        for candidate in (None, interrupt.as_proposed, *proposed.values_list("proposal", flat=True)):
            if digest(columns | {"as_proposed": candidate}) in self.contents[f"{interrupt.covered_as}.{CONTENT}"]:
                columns["as_proposed"] = candidate
                break
        return {"state_version": revision.state_version, "shown": shown, "columns": columns}

    def _decision_line(self, decision: Decision) -> bytes:
        kind, _, name = self.actors.get(decision.covered_as, "").partition(":")
        by = None if decision.by is None else name if kind == "person" else decision.by.get_username()
        shown = {"interrupt": decision.interrupt.public_id, "by": by, "answer": _answer_of(decision)}
        return _record(decision, shown)


def _answer_of(decision: Decision) -> dict[str, Any]:
    """Return what the digest of a decision covers. A NULL input means no input, or JSON null."""
    answer: dict[str, Any] = {"verdict": decision.verdict, "message": decision.message}
    answer |= {} if decision.arguments is None else {"arguments": decision.arguments}
    if decision.input is None:
        arguments = ABSENT if decision.arguments is None else decision.arguments
        with_null = Answer(verdict=decision.verdict, arguments=arguments, message=decision.message, input=None)
        return answer | {"input": None} if with_null.digest() == decision.digest else answer
    return answer | {"input": decision.input}


def _policy_line(policy: Policy) -> Iterator[bytes]:
    """Yield the record of a policy's creation; none if the policy was inserted in the database itself."""
    records = ConfigurationRecord.objects.filter(kind=KINDS[Policy], subject=policy.pk, action=CREATED)
    record = records.order_by("-seq").first()
    if record is not None:
        about = {"reason": policy.reason, "version": policy.version}
        yield _line("policy", about | {"record": record.covered(), "digest": record.digest})


def _rule_line(rule: StandingRule) -> Iterator[bytes]:
    """Yield the newest record of a standing rule in the audit log."""
    records = ConfigurationRecord.objects.filter(kind=KINDS[StandingRule], subject=rule.pk)
    record = records.order_by("-seq").first()
    if record is not None:
        about = {"rule": rule.public_id, "made_by": rule.made_by.get_username()}
        yield _line("standing_rule", about | {"record": record.covered(), "digest": record.digest})


def _names(kind: str, rows: QuerySet[Any]) -> Iterator[str]:
    yield from (f"{kind}:{name}" for name in rows.values_list("public_id", flat=True))


def _reports(effect: Effect) -> Iterator[EffectReport]:
    for report in _pages(EffectReport.objects.filter(effect=effect)):
        report.effect = effect
        yield report


def _pages(rows: QuerySet[M], *, by: str = "pk", size: int = ROWS) -> Iterator[M]:
    found = list(rows.order_by(by)[:size])
    while found:
        yield from found
        last = getattr(found[-1], by)
        found = list(rows.order_by(by).filter(**{f"{by}__gt": last})[:size]) if len(found) == size else []


# --- lines ------------------------------------------------------------------------------------------------------------


def _record(row: CoveredRow, shown: dict[str, Any] | None = None) -> bytes:
    """Return the line of a record: the columns of each part that the events cover, and what their digests were made of."""
    masked: list[str] = []
    parts = {
        part: {column: column_as_json(getattr(row, column)) for column in columns}
        for part, columns in row.covered_parts.items()
    }
    for part, columns in parts.items():
        for column, value in columns.items():
            columns[column] = _masked(value, f"/parts/{part}/{column}", masked)
    more = {name: _masked(value, f"/{name}", masked) for name, value in (shown or {}).items()}
    return _line("record", {"name": row.covered_as, **more, "parts": parts, "masked": masked})


def _masked(value: Any, at: str, found: list[str]) -> Any:
    """Return a value without those of members that are named like a secret, and append their JSON Pointers."""
    if _SCHEMA.fullmatch(at):
        return _masked_schema(value, at, found, is_secret=_refers_to_secret(value))
    if isinstance(value, list):
        return [_masked(inner, f"{at}/{place}", found) for place, inner in enumerate(value)]
    if not isinstance(value, dict):
        return value
    shown = {}
    for name, inner in value.items():
        pointer = _pointer(at, name)
        if is_secret_name(name):
            found.append(pointer)
            shown[name] = MASK
        else:
            shown[name] = _masked(inner, pointer, found)
    return shown


def _masked_schema(schema: Any, at: str, found: list[str], *, is_secret: bool) -> Any:
    """Return a schema without the values that it states below a property named like a secret; its names stay."""
    if isinstance(schema, list):
        return [
            _masked_schema(inner, f"{at}/{place}", found, is_secret=is_secret) for place, inner in enumerate(schema)
        ]
    if not isinstance(schema, dict):
        return schema
    shown: dict[str, Any] = {}
    for name, inner in schema.items():
        pointer = _pointer(at, name)
        if name in _SCHEMA_VALUES and is_secret:
            found.append(pointer)
            shown[name] = MASK
        elif name in _SCHEMA_VALUES:
            shown[name] = _masked(inner, pointer, found)
        elif name in _SCHEMA_NAMES and isinstance(inner, dict):
            shown[name] = {
                own: _masked_schema(below, _pointer(pointer, own), found, is_secret=is_secret or is_secret_name(own))
                for own, below in inner.items()
            }
        else:
            shown[name] = _masked_schema(inner, pointer, found, is_secret=is_secret)
    return shown


def _refers_to_secret(schema: Any, *, is_secret: bool = False) -> bool:
    """Return whether a property named like a secret has a ``$ref``: any value of the schema can then be its own."""
    if isinstance(schema, list):
        return any(_refers_to_secret(inner, is_secret=is_secret) for inner in schema)
    if not isinstance(schema, dict):
        return False
    if is_secret and "$ref" in schema:
        return True
    return any(_refers_to_secret(inner, is_secret=is_secret or is_secret_name(name)) for name, inner in schema.items())


def _pointer(at: str, name: str) -> str:
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def _line(line: str, members: dict[str, Any]) -> bytes:
    return dumps({"line": line, **members}).encode() + b"\n"
