"""Second factors on pages: allauth's views for authenticator apps, passkeys and recovery codes, with the product's rules.

Secrets are stored encrypted with a key derived from `SECRET_KEY`. A new factor ends the person's other sessions, because
they have not proved it. Each change is in the audit log. A person who must have a factor cannot remove the last.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import struct
from collections.abc import Callable
from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.views import IndexView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    EditWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from allauth.mfa.webauthn.views import AddWebAuthnView, ReauthenticateWebAuthnView, RemoveWebAuthnView
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledger.actors import person_actor
from reviewqueue.accounts import second_factors, sessions
from reviewqueue.operations.provisioning.people import account_state, record_change

MAX_CREDENTIAL_LENGTH = 20_000
MAX_NAME_LENGTH = 60
_CONTEXT = b"reviewqueue.pages.second_factor"
#: The member of a passkey's data with its person's choice. allauth's `is_passwordless` is what the device can do.
SIGNS_IN_ALONE = "passwordless"


class SecondFactorAdapter(DefaultMFAAdapter):
    """Encrypt stored secrets, and keep the last factor of a person who must have one."""

    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret. Raises a validation error if it was encrypted with a key that is gone."""
        try:
            return _cipher().decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            raise ValidationError(
                _(
                    _(
                        "This server cannot read your second factor, because its SECRET_KEY has changed. "
                        "An operator can reset your second factor."
                    )
                ),
                code="unreadable",
            ) from None

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        person = authenticator.user
        others = Authenticator.objects.filter(user=person.pk, type__in=second_factors.FACTORS).exclude(
            pk=authenticator.pk
        )
        return others.exists() or not second_factors.must_have_second_factor(person)

    def generate_authenticator_name(self, user: AbstractUser, type: str) -> str:  # noqa: A002  allauth's name
        count = Authenticator.objects.filter(user=user.pk, type=type).count()
        return _("Passkey {number}").format(number=count + 1)


SecondFactorAdapter.error_messages = DefaultMFAAdapter.error_messages | {
    "cannot_delete_authenticator": gettext_lazy(
        "Your role needs a second factor. Add another one before you remove this one."
    ),
    "incorrect_code": gettext_lazy("This is not a current code, or it was used already."),
}


def _cipher() -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet(
        [Fernet(base64.urlsafe_b64encode(hashlib.sha256(_CONTEXT + key.encode()).digest())) for key in keys]
    )


# --- forms ------------------------------------------------------------------------------------------------------------


class CredentialField(forms.JSONField):
    """A browser's WebAuthn response as JSON. Anything else is a validation error."""

    widget = forms.HiddenInput

    def bound_data(self, data: Any, initial: Any) -> str:
        """Return nothing: a credential is valid once, so that a form that is shown again needs another."""
        return ""

    def prepare_value(self, value: Any) -> str:
        return ""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > MAX_CREDENTIAL_LENGTH:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        try:
            read = super().to_python(value)
        except RecursionError:
            read = None
        if read is not None and not isinstance(read, dict):
            read = None
        if read is None:
            raise ValidationError(_("This is no answer of a passkey. Try again."), code="invalid")
        return read


class _PasskeyForm(forms.Form):
    """Turn every fault of a forged WebAuthn response into a validation error: the parser raises various exceptions."""

    credential = CredentialField()

    def _clean_fields(self) -> None:
        try:
            super()._clean_fields()  # type: ignore[misc]
        except _FORGED:
            self.add_error("credential", _("This is no answer of a passkey. Try again."))

    def _clean_form(self) -> None:
        try:
            super()._clean_form()  # type: ignore[misc]
        except _FORGED:
            self.add_error("credential", _("This is no answer of a passkey. Try again."))


_FORGED = (
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
    struct.error,
    NotImplementedError,
)


class AddPasskeyForm(_PasskeyForm, AddWebAuthnForm):
    name = forms.CharField(label=gettext_lazy("Name of the passkey"), required=False, max_length=MAX_NAME_LENGTH)
    credential = CredentialField()
    passwordless = forms.BooleanField(
        label=gettext_lazy("Sign in with this passkey alone, without a password"), required=False
    )


class UsePasskeyForm(_PasskeyForm, AuthenticateWebAuthnForm):
    credential = CredentialField()


class ConfirmByPasskeyForm(_PasskeyForm, ReauthenticateWebAuthnForm):
    credential = CredentialField()


class SignInByPasskeyForm(_PasskeyForm, LoginWebAuthnForm):
    """Sign in with a passkey alone, if its person chose that when they added it."""

    credential = CredentialField()

    def clean_credential(self) -> Authenticator:
        used: Authenticator = super().clean_credential()
        if not used.data.get(SIGNS_IN_ALONE):
            raise ValidationError(_("This passkey is a second factor. Sign in with your password first."))
        return used


class RenamePasskeyForm(EditWebAuthnForm):
    name = forms.CharField(label=gettext_lazy("Name of the passkey"), max_length=MAX_NAME_LENGTH)


# --- views ------------------------------------------------------------------------------------------------------------


class SecondFactors(IndexView):
    """The reader's second factors."""

    def get_context_data(self, **named: Any) -> dict[str, Any]:
        person = self.request.user
        has_none = not second_factors.has_second_factor(person)
        must_add = has_none and second_factors.must_have_second_factor(person)
        context: dict[str, Any] = super().get_context_data(**named)
        codes = context["authenticators"].get(Authenticator.Type.RECOVERY_CODES)
        return context | {"must_add_second_factor": must_add, "count_of_codes": codes and _count_of(codes)}


def _count_of(codes: RecoveryCodes) -> int:
    """Return how many recovery codes are unused: none if they cannot be decrypted."""
    try:
        return len(codes.get_unused_codes())
    except ValidationError:
        return 0


class ActivateApp(ActivateTOTPView):
    """Add an authenticator app."""

    def form_valid(self, form: forms.Form) -> HttpResponse:
        before = account_state(self.request.user)
        response: HttpResponse = super().form_valid(form)
        app = Authenticator.objects.get(user=self.request.user.pk, type=Authenticator.Type.TOTP)
        app.wrap()._mark_code_used(form.cleaned_data["code"])  # allauth accepts it again otherwise
        _after_added(self.request, Authenticator.Type.TOTP, before)
        return response


class DeactivateApp(DeactivateTOTPView):
    """Remove the authenticator app."""

    def form_valid(self, form: forms.Form) -> HttpResponse:
        before = account_state(self.request.user)
        response: HttpResponse = super().form_valid(form)
        _record_removed(self.request, before)
        return response


class AddPasskey(AddWebAuthnView):
    """Add a passkey."""

    def form_valid(self, form: forms.Form) -> HttpResponse:
        before = account_state(self.request.user)
        response: HttpResponse = super().form_valid(form)
        added = Authenticator.objects.filter(user=self.request.user.pk, type=Authenticator.Type.WEBAUTHN).latest("pk")
        added.data[SIGNS_IN_ALONE] = form.cleaned_data["passwordless"]
        added.save(update_fields=["data"])
        _after_added(self.request, Authenticator.Type.WEBAUTHN, before)
        return response


class RemovePasskey(RemoveWebAuthnView):
    """Remove a passkey, unless it is the last factor of a person who must have one."""

    def form_valid(self, form: forms.Form) -> HttpResponse:
        adapter, before = SecondFactorAdapter(), account_state(self.request.user)
        if not adapter.can_delete_authenticator(self.get_object()):
            messages.error(self.request, adapter.error_messages["cannot_delete_authenticator"])
            return HttpResponseRedirect(reverse("mfa_index"))
        response: HttpResponse = super().form_valid(form)
        _record_removed(self.request, before)
        return response


class ConfirmByPasskey(ReauthenticateWebAuthnView):
    """Confirm with a passkey. A wrong one leads back to this page, not to the sign-in page."""

    def form_invalid(self, form: forms.Form) -> HttpResponse:
        for message in form.errors.get("credential", []):
            messages.error(self.request, str(message))
        return HttpResponseRedirect(self.passthrough_next_url(reverse("mfa_reauthenticate_webauthn")))


def explain_unreadable(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Show on the page of factors that stored codes cannot be decrypted; allauth raises outside a form."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **named: Any) -> HttpResponse:
        try:
            return view(request, *args, **named)
        except ValidationError as error:
            for message in error.messages:
                messages.error(request, message)
            return HttpResponseRedirect(reverse("mfa_index"))

    return wrapped


def _after_added(request: HttpRequest, kind: str, before: dict[str, Any]) -> None:
    person: AbstractUser = request.user  # type: ignore[assignment]  # behind the sign-in
    second_factors.record_proof(request, kind)
    record_change(person, actor=person_actor(person), action="factor added", before=before)
    if sessions.end_sessions(person, but=request.session.session_key):
        messages.info(request, _("Your other sessions have ended, because they did not use this factor."))


def _record_removed(request: HttpRequest, before: dict[str, Any]) -> None:
    person: AbstractUser = request.user  # type: ignore[assignment]  # behind the sign-in
    record_change(person, actor=person_actor(person), action="factor removed", before=before)
