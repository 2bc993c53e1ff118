"""Kinds of notifications, and the event types that lead to them."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class NotificationKind(TextChoices):
    """What a notification reports. The labels are those of the preferences page."""

    REQUESTED = "requested", _("A new request")
    ASSIGNED = "assigned", _("A request is assigned to you")
    MENTIONED = "mentioned", _("A comment mentions you")
    REMINDED = "reminded", _("A deadline is near")
    ESCALATED = "escalated", _("A request is escalated to your queue")
    EXPIRED = "expired", _("A request expired")
    AMENDED = "amended", _("The agent changed an open request")
    REOPENED = "reopened", _("A decision no longer counts, so its request is open")
    UNKNOWN = "unknown", _("The outcome of an effect is unknown")
    HELD = "held", _("A run is on hold")
    UNDELIVERED = "undelivered", _("Webhook messages were given up")
    HALTED = "halted", _("An agent is halted")
    INVITED = "invited", _("An invitation")
    RESET = "reset", _("A password reset")


#: About the account. They cannot be muted, and no digest or quiet hours delay them.
ACCOUNT = frozenset({NotificationKind.INVITED, NotificationKind.RESET})
#: About a request of a queue: the preferences of the queue apply, and its chat channels are notified.
OF_QUEUE = frozenset(
    {
        NotificationKind.REQUESTED,
        NotificationKind.REMINDED,
        NotificationKind.ESCALATED,
        NotificationKind.EXPIRED,
        NotificationKind.AMENDED,
        NotificationKind.REOPENED,
    }
)
#: Obsolete once the request is closed.
WHILE_OPEN = frozenset(
    {
        NotificationKind.REQUESTED,
        NotificationKind.ASSIGNED,
        NotificationKind.REMINDED,
        NotificationKind.ESCALATED,
        NotificationKind.AMENDED,
        NotificationKind.REOPENED,
    }
)
#: Type of an event -> kind of the notifications about it.
KIND_OF_EVENT: dict[str, NotificationKind] = {
    "run.suspended": NotificationKind.REQUESTED,
    "interrupt.assigned": NotificationKind.ASSIGNED,
    "interrupt.commented": NotificationKind.MENTIONED,
    "interrupt.reminded": NotificationKind.REMINDED,
    "interrupt.escalated": NotificationKind.ESCALATED,
    "interrupt.expired": NotificationKind.EXPIRED,
    "interrupt.amended": NotificationKind.AMENDED,
    "decision.undone": NotificationKind.REOPENED,
    "vote.revoked": NotificationKind.REOPENED,
    "resume.denied": NotificationKind.REOPENED,
    "review.renewed": NotificationKind.REOPENED,
    "effect.unknown": NotificationKind.UNKNOWN,
    "hold.opened": NotificationKind.HELD,
    "run.restored": NotificationKind.HELD,
    "lease.lost": NotificationKind.UNKNOWN,
    "lease.handed_back": NotificationKind.UNKNOWN,
}
