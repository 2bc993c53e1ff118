"""Mail about an account: invitations and password resets. Its link is made when the mail is sent, so none is stored."""

from __future__ import annotations

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.urls import reverse

from ledger import clock
from ledger.public_ids import new_id
from reviewqueue.models import Notification
from reviewqueue.notifications.kinds import NotificationKind


def create_account_notification(person: AbstractUser, kind: NotificationKind) -> Notification:
    """Store that the person gets a mail with a link to choose a password. A task sends it."""
    now = clock.now()
    return Notification.objects.create(
        kind=kind, key=new_id("acc"), person_id=person.pk, compose_at=now, created_at=now
    )


def account_link(person: AbstractUser) -> str:
    """Return the address of the page on which the person chooses a password: valid once, for three days."""
    key = f"{user_pk_to_url_str(person)}-{default_token_generator.make_token(person)}"
    path = reverse("account_reset_password_from_key", kwargs={"uidb36": "UID", "key": "KEY"})
    return settings.BASE_URL.rstrip("/") + path.replace("UID-KEY", key)
