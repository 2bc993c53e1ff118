"""The decision form: what a reviewer chose and entered for each verdict, and the errors in it.

The form is built from a request and, after a submission, from the POST. Entered text is never lost, and an error is shown
at its field. A verdict counts only if its own button was pressed. The gateway validates the decision afterwards.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from ledger.digests import digest
from ledger.errors import Problem
from ledger.exact_json import ABSENT
from ledger.json_diff import is_equal_json
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import describe_call, labelled, labels_of
from reviewqueue.pages.interrupt import decision_evidence
from reviewqueue.pages.interrupt.earlier_versions import ChangesSinceOpened, changes_since_version
from reviewqueue.pages.schema_forms import (
    Form,
    Submission,
    SubmittedRows,
    build_edit_form,
    build_form,
    parse_submission,
    pressed_row_button,
)
from reviewqueue.pages.schema_forms.fields import (
    CHECKS,
    DATE_TIME,
    INTEGER,
    JSON,
    NUMBER,
    TIME,
    Alternatives,
    Field,
    Rows,
    all_nodes,
    kind_name,
    offset_name,
    rows_name,
)
from reviewqueue.queries.page_queries import RequestPage
from reviewqueue.resume_gateway import ShownVersion
from reviewqueue.text import json_values
from reviewqueue.text.hidden_characters import Warnings, warnings_in
from runs.decisions import MESSAGE_LIMIT, Answer, requires_reason
from runs.models import Fact, Interrupt
from runs.states import APPROVING, Verdict
from runs.use_cases.end_run import ends_run_on_verdict

Post = Mapping[str, Any]
NO_VERSION = 0  # the first is 1
_REQUEST_KEY = re.compile(r"[A-Za-z0-9_-]{8,60}")

# --- labels of verdicts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class VerdictLabels:
    """How a verdict is offered: its title, its effect, its keyboard shortcut, its button and its message field."""

    title: str
    hint: str
    key: str
    button: str
    message: str
    tone: str = "solid"
    message_required: bool = False


def verdict_labels(verdict: str) -> VerdictLabels:
    """Return the labels of a verdict in the reader's language."""
    labels: dict[str, VerdictLabels] = {
        Verdict.APPROVE: VerdictLabels(
            title=_("Approve"),
            hint=_("The agent may make exactly this call, once."),
            key="a",
            button=_("Approve"),
            message=_("Note for the record"),
        ),
        Verdict.EDIT: VerdictLabels(
            title=_("Edit and approve"),
            hint=_("You edit the call; only your version may run."),
            key="e",
            button=_("Review my changes"),
            message=_("Note for the record"),
        ),
        Verdict.REJECT: VerdictLabels(
            title=_("Reject"),
            hint=_("The call is not made. The agent gets your reason and continues."),
            key="r",
            button=_("Reject this call"),
            message=_("Reason, sent to the agent"),
            tone="bad",
        ),
        Verdict.RESPOND: VerdictLabels(
            title=_("Request changes"),
            hint=_("Closes this request. The agent reads your message and can ask again."),
            key="m",
            button=_("Request changes"),
            message=_("Message to the agent"),
            message_required=True,
        ),
        Verdict.ANSWER: VerdictLabels(
            title=_("Answer"),
            hint=_("The agent gets your answer and continues."),
            key="a",
            button=_("Send this answer"),
            message=_("Note to the agent"),
        ),
        Verdict.DECLINE: VerdictLabels(
            title=_("I can’t answer this"),
            hint=_("Closes this request. The agent learns that it gets no answer."),
            key="r",
            button=_("Decline to answer"),
            message=_("Reason, sent to the agent"),
            tone="bad",
        ),
    }
    return labels[verdict]


def labels_of_verdict(interrupt: Interrupt, verdict: str) -> VerdictLabels:
    """Return the labels of a verdict for this request: the hint of a rejection that cancels the run says so."""
    labels = verdict_labels(verdict)
    if requires_reason(interrupt, verdict):
        labels = replace(labels, message_required=True)
    if not ends_run_on_verdict(interrupt, verdict):
        return labels
    hint = _("The call is not made, the run is cancelled, and its effects are compensated. You cannot undo this.")
    return replace(labels, hint=hint, message=_("Reason, for the record"))


# --- the form -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """A checkbox that the verdict requires: for a changed ``fact``, hidden or look-alike characters in the call
    (``warnings``), parts of the request that the page does not show whole (``left_out``), or (none of these) changes since
    the reviewer opened the page.

    Its value identifies what the reviewer saw, so that a confirmation of something older does not count.
    """

    id: str
    fact: Fact | None
    name: str
    value: str
    is_ticked: bool
    problem: str = ""
    warnings: Warnings | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class VerdictSection:
    """The part of the form that belongs to one verdict."""

    verdict: str
    labels: VerdictLabels
    is_chosen: bool
    message: str = ""
    message_problem: str = ""
    form: Form | None = None
    submission: Submission | None = None
    edit_form: Form | None = None
    edit_submission: Submission | None = None
    confirmations: tuple[Confirmation, ...] = ()

    @property
    def has_errors(self) -> bool:
        submissions = (self.submission, self.edit_submission)
        return (
            bool(self.message_problem)
            or any(confirmation.problem for confirmation in self.confirmations)
            or any(submission is not None and submission.problems for submission in submissions)
        )

    @property
    def has_entries(self) -> bool:
        """Return whether the reviewer entered a message or changed a field."""
        filled = ((self.form, self.submission), (self.edit_form, self.edit_submission))
        return bool(self.message.strip()) or any(
            form is not None and submission is not None and _has_changes(form, submission)
            for form, submission in filled
        )

    @property
    def errors_outside_forms(self) -> tuple[tuple[str, str], ...]:
        """Return the ids of controls outside the schema forms that have an error, with the errors."""
        errors = [
            (confirmation.id, confirmation.problem) for confirmation in self.confirmations if confirmation.problem
        ]
        if self.message_problem:
            errors.append((f"message-{self.verdict}", self.message_problem))
        return tuple(errors)


def _has_changes(form: Form, submission: Submission) -> bool:
    """Return whether a submission differs from the form as it was first rendered."""
    untouched = parse_submission(form, _untouched_post(form)).value
    if (submission.value, untouched) != (ABSENT, ABSENT) and not is_equal_json(submission.value, untouched):
        return True
    # A text that is no value of its field, such as half a number.
    parsed = (JSON, NUMBER, INTEGER, DATE_TIME, TIME)
    nodes = (*all_nodes(form.root), *all_nodes(form.whole))
    fields = (node for node in nodes if isinstance(node, Field) and node.widget in parsed)
    return any(submission.entered.get(field.name, field.initial).split() != field.initial.split() for field in fields)


def _untouched_post(form: Form) -> MultiValueDict[str, str]:
    """Return what a browser sends if nothing was entered."""
    sent: MultiValueDict[str, str] = MultiValueDict()
    for node in all_nodes(form.root):
        if isinstance(node, Field):
            sent.setlist(node.name, node.initial.split(",") if node.widget == CHECKS else [node.initial])
            sent.setlist(offset_name(node.name), [node.initial_offset])
        elif isinstance(node, Alternatives):
            sent.setlist(kind_name(node.name), [node.initial])
        elif isinstance(node, Rows):
            sent.setlist(rows_name(node.name), [row.key for row in node.rows])
    return sent


@dataclass(frozen=True, kw_only=True)
class DecisionForm:
    """The sections of all verdicts, the version that was seen, and the key that makes a double post one decision.

    ``since`` is the version at which the reviewer began; ``changes`` are the agent's changes since then.
    """

    interrupt: Interrupt
    sections: tuple[VerdictSection, ...]
    seen: ShownVersion
    request_key: str
    since: int = 0
    changes: ChangesSinceOpened | None = None
    pressed: str = ""
    error: str = ""

    @cached_property
    def chosen(self) -> VerdictSection | None:
        return next((section for section in self.sections if section.is_chosen), None)

    @property
    def has_entries(self) -> bool:
        """Return whether the reviewer entered anything: a chosen verdict and confirmations do not count."""
        return any(section.has_entries for section in self.sections)

    @property
    def has_errors(self) -> bool:
        """Return whether the form cannot be sent to the gateway."""
        return self.chosen is None or bool(self.error) or self.chosen.has_errors

    def answer(self) -> Answer:
        """Return the chosen section as an answer for the gateway. Requires a form without errors."""
        assert self.chosen is not None  # noqa: S101  the caller checked has_errors
        section = self.chosen
        return Answer(
            verdict=section.verdict,
            input=ABSENT if section.submission is None else section.submission.value,
            arguments=ABSENT if section.edit_submission is None else section.edit_submission.value,
            message=section.message,
        )

    def with_problems(self, problems: list[Problem]) -> DecisionForm:
        """Return the form with the gateway's problems, each at its field."""
        assert self.chosen is not None  # noqa: S101  only a chosen section reaches the gateway
        section = self.chosen
        at = {"/input": section.submission, "/arguments": section.edit_submission}
        for prefix, submission in at.items():
            found = [
                Problem(problem.pointer.removeprefix(prefix), problem.message)
                for problem in problems
                if problem.pointer.startswith(prefix)
            ]
            at[prefix] = submission.with_problems(found) if submission is not None and found else submission
        message = next((problem.message for problem in problems if problem.pointer == "/message"), "")
        changed = replace(section, submission=at["/input"], edit_submission=at["/arguments"], message_problem=message)
        return replace(self, sections=tuple(changed if one is section else one for one in self.sections))

    def with_error(self, error: str) -> DecisionForm:
        """Return the form with a sentence above it that says why nothing was sent."""
        return replace(self, error=error)


def new_decision_form(screen: RequestPage) -> DecisionForm:
    """Return the form with its initial values: no verdict is chosen."""
    return _Builder(screen, None, validate=False).decision_form()


def parse_decision_form(screen: RequestPage, post: Post, *, validate: bool) -> DecisionForm:
    """Return the submitted form. ``validate`` False: it is only shown again, without errors."""
    return _Builder(screen, post, validate=validate).decision_form()


def fact_token(fact: Fact) -> str:
    """Return the name of a fact in its form. A primary key would reveal how many facts other requests have."""
    scope = "checkpoint" if fact.interrupt_id is None else "wait"
    return sha256(f"{scope} {fact.name}".encode()).hexdigest()[:16]


class _Builder:
    def __init__(self, screen: RequestPage, post: Post | None, *, validate: bool) -> None:
        self.screen = screen
        self.interrupt = screen.interrupt
        self.post = post
        self.validate = validate
        row_button = "" if post is None or validate else pressed_row_button(post)
        self.submitted_rows = SubmittedRows(post=post, button=row_button)
        self.since = self.version("since") or self.version("state_version") or self.interrupt.state_version
        self.changes = changes_since_version(self.interrupt, self.since, facts=screen.facts)
        self.chosen = self.text("verdict") if self.text("verdict") in self.interrupt.verdicts else ""

    def text(self, name: str) -> str:
        """Return the text of one control, with line feeds as line ends."""
        return str(self.post.get(name, "")).replace("\r\n", "\n") if self.post is not None else ""

    def decision_form(self) -> DecisionForm:
        pressed = self.text("act")
        return DecisionForm(
            interrupt=self.interrupt,
            sections=tuple(self.section(verdict) for verdict in self.interrupt.verdicts),
            seen=self.seen(),
            request_key=self.request_key(),
            since=self.since,
            changes=self.changes,
            pressed=pressed,
            error=self.button_error(pressed) if self.validate else "",
        )

    def request_key(self) -> str:
        """Return the key of the submitted form, so that a double post is one decision; a new key for a new form."""
        sent = self.text("request_key")
        return sent if _REQUEST_KEY.fullmatch(sent) else secrets.token_urlsafe(16)

    def seen(self) -> ShownVersion:
        """Return the version that the reviewer saw: that of the submitted form, or of the form that is rendered now.

        A form without a version was not rendered by this server, so what its sender saw is unknown: it counts as stale.
        """
        if not self.validate:
            return ShownVersion(
                state_version=self.interrupt.state_version, content_digest=self.interrupt.content_digest
            )
        return ShownVersion(
            state_version=self.version("state_version"), content_digest=self.text("content_digest")[:80]
        )

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Return the parts of the request that the page does not show whole: call, message, facts, evidence."""
        proposal, interrupt = self.interrupt.proposal, self.interrupt
        is_cut = proposal is not None and not json_values.is_shown_whole(proposal["arguments"])
        parts = decision_evidence.parts_left_out(
            message=interrupt.message, facts=self.screen.facts, evidence=interrupt.evidence
        )
        return (decision_evidence.CALL, *parts) if is_cut else tuple(parts)

    def version(self, name: str) -> int:
        """Return the version in a control, or ``NO_VERSION``."""
        version = self.text(name)
        is_number = version.isascii() and version.isdigit() and len(version) < 10
        return int(version) if is_number else NO_VERSION

    def button_error(self, pressed: str) -> str:
        """Return an error where the pressed button does not belong to the chosen verdict."""
        if not self.chosen:
            return _("Choose a decision first. Nothing was sent.")
        if pressed.partition("-")[0] != self.chosen:
            labels = verdict_labels(self.chosen)
            return _("You chose “{title}”. Press “{button}” to send it. Nothing was sent.").format(
                title=labels.title, button=labels.button
            )
        return ""

    def section(self, verdict: str) -> VerdictSection:
        is_chosen = verdict == self.chosen
        validate = self.validate and is_chosen
        message = self.text(f"message-{verdict}")
        form = self.input_form(verdict)
        edit_form = self.edit_form() if verdict == Verdict.EDIT else None
        edit_submission = self.submission(edit_form, validate=validate)
        return VerdictSection(
            verdict=verdict,
            labels=labels_of_verdict(self.interrupt, verdict),
            is_chosen=is_chosen,
            message=message,
            message_problem=self.message_problem(verdict, message) if validate else "",
            form=form,
            submission=self.submission(form, validate=validate),
            edit_form=edit_form,
            edit_submission=edit_submission,
            confirmations=self.confirmations(verdict, edit_submission, validate=validate),
        )

    def input_form(self, verdict: str) -> Form | None:
        """Return the form of the input schema, for the verdicts that take an input."""
        schema = self.interrupt.schema
        if verdict == Verdict.ANSWER:
            body = True if schema is None else schema.body
            return build_form(body, prefix="input", submitted_rows=self.submitted_rows, must_be_given=True)
        if verdict in APPROVING and schema is not None:
            return build_form(
                schema.body, prefix=f"input-{verdict}", submitted_rows=self.submitted_rows, must_be_given=True
            )
        return None

    def edit_form(self) -> Form:
        proposal = self.interrupt.proposal
        given = proposal["arguments"]
        if "schema" in proposal:
            form = build_form(
                proposal["schema"], proposed=given, prefix="arguments", submitted_rows=self.submitted_rows
            )
        else:
            form = build_edit_form(given, prefix="arguments", submitted_rows=self.submitted_rows)
        agent = self.interrupt.agent_id
        label = labels_of([(agent, proposal)]).get((agent, str(proposal["name"])))
        return labelled(form, describe_call(proposal, label))

    def submission(self, form: Form | None, *, validate: bool) -> Submission | None:
        if form is None or self.post is None:
            return None
        if not any(str(name).partition(".")[0] == form.prefix for name in self.post):
            return parse_submission(form, self.post) if validate else None
        submission = parse_submission(form, self.post)
        return submission if validate else replace(submission, problems=())

    def message_problem(self, verdict: str, message: str) -> str:
        if labels_of_verdict(self.interrupt, verdict).message_required and not message.strip():
            is_reason = requires_reason(self.interrupt, verdict)
            return _("Enter a reason; the policy requires one.") if is_reason else _("Enter a message to the agent.")
        if len(message) > MESSAGE_LIMIT:
            return _("The message must have at most {message_limit} characters.").format(message_limit=MESSAGE_LIMIT)
        return _("The message contains a character that cannot be stored.") if "\x00" in message else ""

    def confirmations(
        self, verdict: str, edit_submission: Submission | None, *, validate: bool
    ) -> tuple[Confirmation, ...]:
        found = []
        digest_seen = self.interrupt.content_digest
        # The gateway refuses a decision about an older version: its form did not have these checkboxes.
        is_current = validate and self.version("state_version") == self.interrupt.state_version
        if self.changes is not None and verdict in {*APPROVING, Verdict.ANSWER}:
            problem = _("Confirm that you have read the changes.")
            found.append(self.confirmation("amended", verdict, digest_seen, problem=problem, validate=is_current))
        warnings = self.hidden_characters(edit_submission) if verdict in APPROVING else None
        if warnings:
            problem = _("Confirm that you have seen the hidden or look-alike characters.")
            one = self.confirmation("disguise", verdict, digest_seen, problem=problem, validate=is_current)
            found.append(replace(one, warnings=warnings))
        if verdict in APPROVING and self.left_out:
            parts = f" {_('and')} ".join(map(code_labels.part_label, self.left_out))
            problem = _("Confirm that you have read the part of {parts} that this page does not show.").format(
                parts=parts
            )
            one = self.confirmation("rest", verdict, digest_seen, problem=problem, validate=is_current)
            found.append(replace(one, left_out=self.left_out))
        if verdict in APPROVING:
            for fact in self.screen.changed:
                problem = _("Confirm that you have seen this change.")
                value = digest(fact.last_value)
                one = self.confirmation(fact_token(fact), verdict, value, problem=problem, validate=validate)
                found.append(replace(one, fact=fact))
        return tuple(found)

    def hidden_characters(self, edit_submission: Submission | None) -> Warnings | None:
        """Return the hidden characters in the exact call that would be approved: the proposed or the edited one."""
        proposal = self.interrupt.proposal
        if proposal is None:
            return None
        edited = ABSENT if edit_submission is None else edit_submission.value
        arguments = proposal["arguments"] if edited is ABSENT or edited is None else edited
        return warnings_in([proposal["name"], arguments])

    def confirmation(self, what: str, verdict: str, value: str, *, problem: str, validate: bool) -> Confirmation:
        name = f"seen-{what}-{verdict}"
        is_ticked = self.text(name) == value
        return Confirmation(
            id=f"tick-{what}-{verdict}",
            fact=None,
            name=name,
            value=value,
            is_ticked=is_ticked,
            problem=problem if validate and not is_ticked else "",
        )
