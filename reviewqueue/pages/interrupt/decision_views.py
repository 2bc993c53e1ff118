"""Views of the page of one request: show it, decide it, save or discard a draft.

A POST is parsed into a decision form. The page is shown again if the form has errors or an edit must be reviewed first; else
the answer goes to ``resume_gateway.submit_decision``. With htmx the same addresses answer with the main part of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from ledger import clock
from ledger.digests import digest
from ledger.errors import Busy, NotFound, PayloadInvalid, Refusal
from reviewqueue import drafts, permissions, resume_gateway
from reviewqueue.middleware import keeps_draft_at_sign_in, polled_by_script
from reviewqueue.pages.inbox.list_navigation import respond_to_decision
from reviewqueue.pages.interrupt import step_up
from reviewqueue.pages.interrupt.decision_form import DecisionForm, new_decision_form, parse_decision_form
from reviewqueue.pages.interrupt.interrupt_context import build_interrupt_context
from reviewqueue.pages.interrupt.refusal_messages import RETRYABLE_CODES, describe_refusal
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.pages.saved_replies import INSERT, insert_reply
from reviewqueue.pages.schema_forms.fields import file_name
from reviewqueue.queries.page_queries import RequestPage, get_request_page
from reviewqueue.review_quality import reading_pace
from reviewqueue.text.json_diff_text import changes_between, limit_changes
from reviewqueue.text.people import person_name
from reviewqueue.text.problem_texts import refusal_text
from runs.attachments import list_usable
from runs.decisions import closed_refusal
from runs.errors import AttachmentRefused, InputInvalid
from runs.file_storage import spool_upload
from runs.policies import needs_second_factor
from runs.states import Kind, Verdict
from runs.use_cases.attach_file import attach_file, check_upload


@dataclass(frozen=True, kw_only=True)
class _Page:
    """A request page: who reads it, what was read for it, and the time of reading."""

    request: PageRequest
    screen: RequestPage
    now: datetime

    def show(
        self,
        form: DecisionForm,
        *,
        status: int = 200,
        draft: drafts.Draft | None = None,
        error: str = "",
        attached_field: str = "",
    ) -> HttpResponse:
        """Render the page. ``attached_field``: a file was just attached for this field, which takes the focus."""
        context = build_interrupt_context(self.screen, reader=self.request.user, now=self.now)
        sent = self.request.POST.get("opened", "")
        context["opened"] = reading_pace.opened_token(self.request.user, self.screen.interrupt, sent=sent, now=self.now)
        origin = drafts.new_origin(draft)
        if self.request.method == "POST" and self.screen.may_decide and not error:
            origin, context["is_newer_draft"] = _save_submitted(self.request, self.screen.interrupt.public_id)
        context["draft_origin"] = origin
        files = list(list_usable(self.screen.interrupt, self.request.user.pk))
        context["attached"] = {"files": files, "field": attached_field}
        context |= {"decision_form": form, "draft": draft, "has_errors": status == 422, "error": error}
        return render_page(self.request, "interrupt/page.html", context, status=status)


def _save_submitted(request: PageRequest, interrupt_id: str) -> tuple[drafts.DraftOrigin, bool]:
    """Save a submitted form as a draft; return its origin, and whether another tab has a newer draft."""
    try:
        return drafts.save_submitted_draft(request.POST, request.user, interrupt_id), False
    except drafts.NewerDraft:
        return drafts.origin_of(request.POST), True


@keeps_draft_at_sign_in
@require_http_methods(["GET", "HEAD", "POST"])
@not_found_if_invisible
def interrupt(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Show a request; by POST, decide it."""
    now = clock.now()
    screen = get_request_page(request.user, interrupt_id, now=now)
    page = _Page(request=request, screen=screen, now=now)
    if request.method == "POST" and drafts.is_for_another_person(request.POST, request.user):
        return _refuse_form_of_another(page)
    if request.method == "POST":
        return _decide(page, parse_decision_form(screen, request.POST, validate=True))
    draft = None
    if screen.may_decide:
        draft = drafts.find_draft(request, request.user, screen.interrupt.pk, now=now)
    form = new_decision_form(screen) if draft is None else parse_decision_form(screen, draft.form, validate=False)
    # A request for input has a hidden verdict, which the reviewer did not choose.
    is_choice = form.chosen is not None and screen.interrupt.kind == Kind.APPROVAL
    if draft is not None and not (draft.was_sent or form.has_entries or is_choice):
        draft = None
    return page.show(form, draft=draft)


@keeps_draft_at_sign_in
@require_POST
@not_found_if_invisible
def attach(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Attach the file of one field, and show the form again with it chosen. What was entered becomes a draft."""
    now = clock.now()
    screen = get_request_page(request.user, interrupt_id, now=now)
    page = _Page(request=request, screen=screen, now=now)
    if drafts.is_for_another_person(request.POST, request.user):
        return _refuse_form_of_another(page)
    field = request.GET.get("field", "")
    sent = request.FILES.get(file_name(field))
    try:
        if sent is None:
            raise AttachmentRefused(_("Choose a file first."))
        why_not = permissions.why_not_decide
        check_upload(screen.interrupt, request.user, why_not=why_not, size=sent.size or 0)
        spooled = spool_upload(sent.chunks())
        with spooled.file:
            name = sent.name or ""
            attached = attach_file(screen.interrupt, request.user, name=name, sent=spooled, why_not=why_not)
    except NotFound:
        raise
    except (AttachmentRefused, Busy) as refusal:
        form = parse_decision_form(screen, request.POST, validate=False)
        return page.show(form.with_error(refusal_text(refusal)), status=422)
    except Refusal as refusal:
        return _show_refusal(page, parse_decision_form(screen, request.POST, validate=False), refusal)
    form_data = request.POST.copy()
    form_data[field] = attached.attachment.digest
    request.POST = form_data  # type: ignore[assignment]  # shown again and saved as the draft
    screen = get_request_page(request.user, interrupt_id, now=now)
    page = _Page(request=request, screen=screen, now=now)
    return page.show(parse_decision_form(screen, form_data, validate=False), attached_field=field)


def _refuse_form_of_another(page: _Page) -> HttpResponse:
    """Decide nothing: another person has signed in at this browser since the form was rendered. Show none of its text."""
    reader = person_name(page.request.user)
    error = _("This page was opened by another person; {reader} has signed in here since. Nothing was sent.").format(
        reader=reader
    )
    return page.show(new_decision_form(page.screen), status=409, error=error)


def _decide(page: _Page, form: DecisionForm) -> HttpResponse:
    post, may_decide = page.request.POST, page.screen.may_decide
    if INSERT in post:
        page.request.POST = insert_reply(post, page.request.user)  # type: ignore[assignment]  # shown and saved as draft
        return page.show(parse_decision_form(page.screen, page.request.POST, validate=False))
    if form.pressed == "edit-again" or "reshape" in post:
        return page.show(parse_decision_form(page.screen, post, validate=False))
    if form.has_errors and may_decide:
        return page.show(form, status=422)
    if form.chosen is not None and form.chosen.verdict == Verdict.EDIT and may_decide and not form.has_errors:
        is_reviewed = post.get("edited") == digest(form.answer().arguments)
        if form.pressed != "edit-approve" or not is_reviewed:
            return _review_edit(page, form)
    return _submit(page, form)


def _submit(page: _Page, form: DecisionForm) -> HttpResponse:
    request, screen = page.request, page.screen
    try:
        if form.chosen is None or form.has_errors:
            raise _refusal_of(screen) or PayloadInvalid(form.error)
        proof = None
        if screen.may_decide and needs_second_factor(screen.interrupt):
            binding = resume_gateway.decision_binding(request.user, screen.interrupt, form.answer())
            proof, error = step_up.find_proof(request, binding)
            if proof is None:
                return _confirm_decision(page, form, binding, error=error)
        receipt = resume_gateway.submit_decision(
            responder=request.user,
            interrupt_id=screen.interrupt.public_id,
            answer=form.answer(),
            seen=form.seen,
            door="page",
            request_key=form.request_key,
            second_factor=proof,
        )
    except InputInvalid as invalid:
        return page.show(form.with_problems(invalid.errors), status=422)
    except PayloadInvalid as invalid:
        return page.show(form.with_error(refusal_text(invalid)), status=422)
    except NotFound:
        raise
    except Refusal as refusal:
        return _show_refusal(page, form, refusal)
    drafts.delete_draft(request, request.user, screen.interrupt.pk)
    opened = reading_pace.read_opened(request.POST.get("opened", ""), request.user, screen.interrupt.public_id)
    if opened is not None and not receipt.replayed:
        reading_pace.record_pace(request.user, receipt.decision, receipt.interrupt, opened=opened)
    return respond_to_decision(request, receipt)


def _refusal_of(screen: RequestPage) -> Refusal | None:
    """Return why this person cannot decide the request, for a form that could not be parsed."""
    if not screen.is_open:
        return closed_refusal(screen.interrupt, screen.winner)
    return screen.why_not


def _confirm_decision(page: _Page, form: DecisionForm, binding: str, *, error: str) -> HttpResponse:
    """Ask for a second factor for exactly this decision. The form is kept as a draft meanwhile."""
    request = page.request
    _save_submitted(request, page.screen.interrupt.public_id)
    challenge = step_up.offer_challenge(request, binding, error=error)
    edited = form.answer().arguments if form.chosen is not None and form.chosen.verdict == Verdict.EDIT else None
    context = build_interrupt_context(page.screen, reader=request.user, now=page.now, edited=edited)
    context |= {
        "decision_form": form,
        "challenge": challenge,
        "js_data": {"request_options": challenge.options},
        "submitted_fields": drafts.submitted_fields(request.POST),
        "pressed": form.pressed,
        "edited": request.POST.get("edited", ""),
    }
    return render_page(request, "interrupt/confirm_decision.html", context, status=422 if error else 200)


def _review_edit(page: _Page, form: DecisionForm) -> HttpResponse:
    """Show what the edit changes, before the button that decides."""
    arguments = form.answer().arguments
    changes = changes_between(form.interrupt.proposal["arguments"], arguments)
    if all(change.is_same for change in changes):
        error = _("You changed nothing. Approve the call as it is, or change it.")
        return page.show(form.with_error(error), status=422)
    context = build_interrupt_context(page.screen, reader=page.request.user, now=page.now, edited=arguments)
    context |= {
        "decision_form": form,
        "changes": limit_changes(changes),
        "submitted_fields": drafts.submitted_fields(page.request.POST),
        "edited": digest(arguments),
    }
    return render_page(page.request, "interrupt/edit_review.html", context)


def _show_refusal(page: _Page, form: DecisionForm, refusal: Refusal) -> HttpResponse:
    """Show why the decision was refused, with its texts; save a draft if the request can be decided again."""
    request, now = page.request, clock.now()
    screen = get_request_page(request.user, page.screen.interrupt.public_id, now=now)
    if refusal.code in RETRYABLE_CODES:
        _save_submitted(request, screen.interrupt.public_id)
    refused = describe_refusal(refusal, screen=screen, decision_form=form, reader=request.user, now=now)
    context = build_interrupt_context(screen, reader=request.user, now=now) | {"refused": refused}
    return render_page(request, "interrupt/refused.html", context, status=refused.status)


# --- drafts -------------------------------------------------------------------------------------------------------------


@polled_by_script
@require_POST
@not_found_if_invisible
def save_draft(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Save the form as a draft; the script of the page posts it shortly after each change."""
    message, saved_at, is_newer_draft = "", None, False
    origin = drafts.origin_of(request.POST)
    if request.POST.get("who", "") == drafts.author_token(request.user):
        overwrite = request.POST.get("overwrite") == "1"
        try:
            draft = drafts.save_draft(
                person=request.user, interrupt_id=interrupt_id, form=request.POST, overwrite=overwrite
            )
            saved_at = None if draft is None else draft.saved_at
            origin = origin if draft is None else drafts.DraftOrigin(version=draft.version, tab=origin.tab)
            message = "" if draft is not None else _("This request is closed, so no draft is saved.")
            drafts.delete_session_draft(request)
        except PayloadInvalid as refusal:
            message = refusal_text(refusal)
        except drafts.NewerDraft:
            is_newer_draft = True
    else:
        resume_gateway.get_visible_interrupt(request.user, interrupt_id)
        message = _("Another person opened this form, so no draft is saved.")
    context: dict[str, object] = {"saved_at": saved_at, "message": message, "now": clock.now()}
    context |= {"is_newer_draft": is_newer_draft, "draft_origin": origin, "public_id": interrupt_id}
    return render_page(request, "interrupt/_draft_saved.html", context)


@require_POST
@not_found_if_invisible
def discard_draft(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Delete the draft and show the form with its initial values."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    drafts.delete_draft(request, request.user, interrupt.pk)
    return redirect_page(request, reverse("interrupt", args=[interrupt.public_id]))
