"""The language of a person: stored in their preferences, copied to each session at sign-in. A page reads no row for it."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.translation import get_language_from_request

from reviewqueue.models import NotificationPreferences

_KEY = "language"


def is_offered(code: str) -> bool:
    return code in dict(settings.LANGUAGES)


def language_of_session(request: HttpRequest) -> str:
    """Return the language that the signed-in person has chosen; empty without a choice or if it is no longer offered."""
    code = str(request.session.get(_KEY, ""))
    return code if is_offered(code) else ""


def language_of_browser(request: HttpRequest) -> str:
    """Return the first language of the browser that is offered, or the default."""
    return get_language_from_request(request)


def use_in_session(request: HttpRequest, code: str) -> None:
    """Show this session's pages in the language; an empty code means the browser's language."""
    if code:
        request.session[_KEY] = code
    else:
        request.session.pop(_KEY, None)


@receiver(user_logged_in)
def _use_stored_language(request: HttpRequest, user: AbstractUser, **more: object) -> None:
    stored = NotificationPreferences.objects.filter(person=user.pk).values_list("language", flat=True).first()
    use_in_session(request, stored or "")
