"""Sign-in by e-mail address and password, with rate limits, and password resets; an operator adds or invites people.

Failed attempts are counted for each pair of client address and person, so that a stranger cannot lock a reviewer out. A
count for the person alone slows down guesses from many addresses; a browser that has signed in before is exempt, because its
signed cookie has a count of its own. A count for the address alone never refuses a person's first attempt there, because
colleagues share an address. The limits are `ACCOUNT_RATE_LIMITS` in `settings`.
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.core import context
from allauth.core.internal import ratelimit
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import AbstractUser, User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from reviewqueue.accounts import second_factors
from reviewqueue.notifications.account_mail import create_account_notification
from reviewqueue.notifications.kinds import NotificationKind
from reviewqueue.serving.client_address import client_network

log = logging.getLogger(__name__)

KNOWN_DEVICE = "known_device"
OF_ADDRESS = "login_failed_of_address"
KNOWN_DEVICE_AGE = 180 * 24 * 3600  # seconds
RECENT_SIGN_ON = 300  # seconds in which a single sign-on is a confirmation
_SALT = "reviewqueue.pages.account_adapter.known_device"


class ClosedAccountAdapter(DefaultAccountAdapter):
    """Sign-up is closed: an operator adds people."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_ajax(self, request: HttpRequest) -> bool:
        """Return whether a script asks for the options of a passkey sign-in, the only JSON response.

        That of a form would contain its values, passwords too.
        """
        return request.method in ("GET", "HEAD") and request.path == reverse("mfa_login_webauthn")

    def get_reauthentication_methods(self, user: AbstractUser) -> list[dict[str, Any]]:
        """Return how the person can confirm who they are. Who has a second factor confirms with it, not by password."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        by_factor = [method for method in methods if method["id"].startswith("mfa")]
        if second_factors.has_second_factor(user):
            return by_factor
        if not methods and settings.OIDC_ISSUER:
            return [{"id": "sign_on", "description": _("Sign in again"), "url": reverse("sign_on")}]
        return methods

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """Return whether the person must confirm who they are: not for a while after a single sign-on, if they have
        neither a password nor a second factor.
        """
        request = context.request
        if request.user.has_usable_password() or second_factors.has_second_factor(request.user):
            return True
        newest = max((record["at"] for record in get_authentication_records(request, request.user)), default=0)
        return time.time() - newest > RECENT_SIGN_ON

    def send_password_reset_mail(self, user: AbstractUser, email: str, context: dict[str, Any]) -> None:
        """Leave the mail to a task: the page answers as fast as for an unknown address, also without a mail server.

        A person who has only single sign-on gets none: a password would still work after the provider disables them.
        Without a mail server there is none either: the worker would print the link on its standard output.
        """
        if not settings.EMAIL_HOST:
            return
        if not user.has_usable_password() and SocialAccount.objects.filter(user=user.pk).exists():
            return
        create_account_notification(user, NotificationKind.RESET)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count an attempt before the password is compared; allauth subtracts a successful one again.

        Uses allauth's internal module: the public one does not return the usage to subtract.

        Raises a validation error if a limit is reached. A refused attempt is not added to the other counts.
        """
        login = str(credentials.get("email", credentials.get("username", ""))).lower()
        device = known_device_of(request, login)
        if device:
            counts = [("login_failed_on_known_device", f"{device} {login}")]
        else:
            address = client_network(request.META)
            counts = [("login_failed", f"{address} {login}"), (OF_ADDRESS, address), ("login_failed_of_person", login)]
        self._login_failed_rl_usage = ratelimit.RateLimitUsage(usage=[])
        for action, key in counts:
            usage = ratelimit.consume(request, app="allauth.account", action=action, key=key)
            if usage is None and action == OF_ADDRESS and _is_first_attempt(self._login_failed_rl_usage):
                continue
            if usage is None:
                log.warning("A sign-in from %s is refused: too many attempts failed", client_network(request.META))
                raise self.validation_error("too_many_login_attempts")
            self._login_failed_rl_usage.usage += usage.usage

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Log who failed, without what was entered: it can be a password in the wrong field."""
        login = str(credentials.get("email", credentials.get("username", "")))
        person = User.objects.filter(email__iexact=login).values_list("pk", flat=True).first()
        who = "an unknown person" if person is None else f"person {person}"
        log.warning("A sign-in of %s from %s failed", who, client_network(request.META))

    def post_login(self, request: HttpRequest, user: AbstractUser, **more: Any) -> HttpResponse:
        """Mark this browser as a known device of the person with a signed cookie."""
        response: HttpResponse = super().post_login(request, user, **more)
        methods = [str(record.get("type", record["method"])) for record in get_authentication_records(request, user)]
        log.info("Person %s signed in from %s by %s", user.pk, client_network(request.META), " and ".join(methods))
        login = user.email.lower()
        device = known_device_of(request, login) or secrets.token_urlsafe(12)
        response.set_signed_cookie(
            KNOWN_DEVICE,
            f"{device}.{_mark_of(login)}",
            salt=_SALT,
            max_age=KNOWN_DEVICE_AGE,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
        return response


def _is_first_attempt(counted: ratelimit.RateLimitUsage) -> bool:
    """Return whether this attempt is the only one in the person's own counts at this address."""
    return all(len(cache.get(usage.cache_key, ())) <= 1 for usage in counted.usage)


def known_device_of(request: HttpRequest, login: str) -> str:
    """Return the id of a browser in which this person has signed in before, or an empty string."""
    cookie = request.get_signed_cookie(KNOWN_DEVICE, default="", salt=_SALT, max_age=KNOWN_DEVICE_AGE) or ""
    device, __, mark = cookie.partition(".")
    return device if constant_time_compare(mark, _mark_of(login)) else ""


def _mark_of(login: str) -> str:
    """Return a keyed hash of the person for the cookie, instead of the address itself."""
    return salted_hmac(_SALT, login, algorithm="sha256").hexdigest()[:24]
