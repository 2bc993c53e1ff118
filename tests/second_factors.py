"""Second factors for tests: an authenticator app with its current code, recovery codes, and a sign-in with both steps."""

from __future__ import annotations

import time

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.test import Client

PASSWORD = "a long enough one 7"


def add_app(person: User) -> str:
    """Give the person an authenticator app with recovery codes; return its key."""
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(person, secret)
    RecoveryCodes.activate(person)
    return secret


def code(secret: str, *, steps: int = 0) -> str:
    """Return the app's code now, or of another step of 30 seconds."""
    return totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30 + steps))


def recovery_codes(person: User) -> list[str]:
    return Authenticator.objects.get(user=person, type="recovery_codes").wrap().get_unused_codes()


def enter_password(client: Client, person: User, **more: str):
    return client.post("/account/login/", {"login": person.email, "password": PASSWORD, **more})


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session
