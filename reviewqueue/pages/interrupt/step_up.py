"""Step-up: a second factor for one decision, used on the page that confirms it.

The factor is bound to the decision by ``resume_gateway.decision_binding``: person, request, version, content digest and the
digest of the answer. A code is sent together with the decision and accepted once. A passkey signs a challenge that was made
for this binding and is used once, within ``MAX_PROOF_AGE``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allauth.mfa.base.forms import ReauthenticateForm
from allauth.mfa.webauthn.internal import auth as passkeys
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from ledger import clock
from reviewqueue.accounts import second_factors
from reviewqueue.pages.rendering import PageRequest
from reviewqueue.pages.second_factor import UsePasskeyForm
from reviewqueue.resume_gateway import MAX_PROOF_AGE, SecondFactorProof

CODE, CREDENTIAL = "second_factor_code", "credential"
_CHALLENGE = "decision_challenge"


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """What the confirming page offers: ``options`` for a passkey, and the error of the last attempt."""

    has_factor: bool
    options: dict[str, Any] | None
    error: str = ""


def find_proof(request: PageRequest, binding: str) -> tuple[SecondFactorProof | None, str]:
    """Return the proof that the form contains, or none with the error to show (empty if no factor was sent)."""
    if CODE in request.POST:
        form = ReauthenticateForm(user=request.user, data={"code": request.POST[CODE]})
    elif CREDENTIAL in request.POST:
        if not _take_challenge(request, binding):
            return None, _("This passkey was asked for another decision, or too long ago. Try again.")
        form = UsePasskeyForm(user=request.user, data={CREDENTIAL: request.POST[CREDENTIAL]})  # type: ignore[call-arg]  # allauth's
    else:
        return None, ""
    if not form.is_valid():
        return None, str(next(iter(next(iter(form.errors.values())))))
    authenticator = form.authenticator if CODE in request.POST else form.cleaned_data[CREDENTIAL]
    authenticator.record_usage()
    return SecondFactorProof(kind=str(authenticator.type), binding=binding, at=clock.now()), ""


def offer_challenge(request: PageRequest, binding: str, *, error: str) -> Challenge:
    """Return what the page offers, and store in the session for which decision its challenge is."""
    kinds = second_factors.factors_of([request.user.pk]).get(request.user.pk, [])
    request.session.pop(_CHALLENGE, None)
    options = None
    if "webauthn" in kinds:
        options = passkeys.begin_authentication(request.user)
        made = {"binding": binding, "challenge": _pending_challenge(), "at": clock.now().timestamp()}
        request.session[_CHALLENGE] = made
    return Challenge(has_factor=bool(kinds), options=options, error=error)


def _take_challenge(request: PageRequest, binding: str) -> bool:
    """Remove the stored challenge; return whether it is of this decision, fresh, and the one that allauth verifies."""
    made = request.session.pop(_CHALLENGE, None)
    if made is None or clock.now().timestamp() - made["at"] > MAX_PROOF_AGE.total_seconds():
        return False
    is_pending = made["challenge"] != "" and made["challenge"] == _pending_challenge()
    return is_pending and constant_time_compare(made["binding"], binding)


def _pending_challenge() -> str:
    """Return the challenge that allauth verifies next. Uses its internal function; there is no public one."""
    return str((passkeys.get_state() or {}).get("challenge", ""))
