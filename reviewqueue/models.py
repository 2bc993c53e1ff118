"""Rows that belong to no run: API keys, heartbeats, drafts, actions on dead signals, notifications, changes of people."""

from __future__ import annotations

from datetime import time

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from ledger.models import Effect
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, WebhookEndpoint, WebhookSecret
from runs.models import Agent, Decision, Interrupt, Queue, Run, Signal, StandingRule

__all__ = [
    "ApiKey",
    "ChatChannel",
    "DecisionPace",
    "Delivery",
    "DeliveryAttempt",
    "ExaminedRequest",
    "Heartbeat",
    "Notification",
    "NotificationAttempt",
    "NotificationCursor",
    "NotificationMessage",
    "NotificationPreferences",
    "NotificationService",
    "PersonActivity",
    "QueueNotificationPreference",
    "RollupCell",
    "RollupCursor",
    "RollupDueDay",
    "RollupGroup",
    "RollupState",
    "RollupTotal",
    "SavedFilter",
    "SavedReply",
    "SignalAct",
    "Snooze",
    "TypedAnswer",
    "UnknownOutcome",
    "WebhookEndpoint",
    "WebhookSecret",
]


class ApiKey(models.Model):
    """An agent's API key or a person's token. Only its hash is stored, and the secret is shown once.

    Format: ``rq_<prefix>_<secret>``. A slow hash is not needed, because the secret has 256 random bits.
    """

    prefix = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64, help_text="SHA-256, in hexadecimal")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="keys")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    scopes = models.JSONField(default=list, help_text="of an agent's key: run, control, signal")
    name = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(agent__isnull=True) ^ models.Q(person__isnull=True),
                name="a_key_is_of_an_agent_or_of_a_person",
            )
        ]

    def __str__(self) -> str:
        return f"rq_{self.prefix}_..."


class Heartbeat(models.Model):
    """One row per worker, written by an executed task: a recent time means that tasks are executed."""

    worker = models.CharField(max_length=200, primary_key=True)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.worker} at {self.beaten_at:%H:%M:%S} UTC"


class TypedAnswer(models.Model):
    """A draft: unsent input of one person for one open request. It is shown only to that person."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="+")
    form = models.TextField(help_text="the form as it would be posted, without its token")
    saved_at = models.DateTimeField(db_index=True)
    version = models.PositiveIntegerField(default=1, help_text="counts the saves, so that no tab overwrites another's")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "interrupt"], name="one_typed_answer_of_a_person_per_wait"),
        ]

    def __str__(self) -> str:
        return f"of {self.person_id} for {self.interrupt_id}"


class Snooze(models.Model):
    """A person does not want to see an open request in *Mine to decide* until a time. It concerns no other person.

    It ends earlier if the request changes: ``state_version`` is the version that was snoozed.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()
    state_version = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "interrupt"], name="one_snooze_per_person_and_request")
        ]

    def __str__(self) -> str:
        return f"{self.interrupt_id} until {self.until:%Y-%m-%d %H:%M} UTC"


class SavedFilter(models.Model):
    """A named list of the inbox: of one person, or shared with the people of a queue by a lead of it.

    It is a query and grants nothing: the reader sees their own requests in it.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        db_index=False,
        help_text="null: shared",
    )
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, null=True, related_name="+", help_text="null: private")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1_000, help_text="of the list, as in its address")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "name"], condition=models.Q(queue=None), name="one_private_filter_of_a_name"
            ),
            models.UniqueConstraint(
                fields=["queue", "name"], condition=models.Q(queue__isnull=False), name="one_shared_filter_of_a_name"
            ),
            models.CheckConstraint(
                condition=models.Q(person__isnull=True) ^ models.Q(queue__isnull=True),
                name="a_saved_filter_is_of_a_person_or_of_a_queue",
            ),
        ]
        indexes = [models.Index(fields=["person", "id"], name="filters_of_a_person")]

    def __str__(self) -> str:
        return self.name


class SavedReply(models.Model):
    """A text for comments and reasons: of one person, or of a queue, shared by a lead with those who decide in it."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        db_index=False,
        help_text="null: shared",
    )
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, null=True, related_name="+", help_text="null: private")
    name = models.CharField(max_length=60)
    text = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "name"], condition=models.Q(queue=None), name="one_private_reply_of_a_name"
            ),
            models.UniqueConstraint(
                fields=["queue", "name"], condition=models.Q(queue__isnull=False), name="one_shared_reply_of_a_name"
            ),
            models.CheckConstraint(
                condition=models.Q(person__isnull=True) ^ models.Q(queue__isnull=True),
                name="a_saved_reply_is_of_a_person_or_of_a_queue",
            ),
        ]
        indexes = [models.Index(fields=["person", "id"], name="replies_of_a_person")]

    def __str__(self) -> str:
        return self.name


class ExaminedRequest(models.Model):
    """A standing rule was compared with this version of an open request and did not decide it, so it is not compared
    again. Rows of rules that ended are deleted.
    """

    rule = models.ForeignKey(StandingRule, on_delete=models.CASCADE, related_name="+", db_index=False)
    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="+")
    state_version = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rule", "interrupt"], name="one_examination_per_rule_and_request")
        ]

    def __str__(self) -> str:
        return f"{self.interrupt_id} by {self.rule_id}"


class DecisionPace(models.Model):
    """How long a person had a request open before deciding it on its page. Only they and leads of the queue read it.

    ``seconds`` is rounded down to three significant digits from 1,000 s on.
    """

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="pace")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="+", db_index=False)
    seconds = models.PositiveIntegerField()
    estimate_seconds = models.PositiveIntegerField(help_text="how long the request takes to read at least")
    is_fast = models.BooleanField(help_text="it was faster than the estimate")
    decided_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["person", "-id"], name="paces_of_a_person"),
            models.Index(fields=["queue", "decided_at"], name="paces_of_a_queue"),
        ]

    def __str__(self) -> str:
        return f"{self.seconds} s for {self.decision_id}"


class SignalAct(models.Model):
    """An action of a person on a dead signal, with the reason. Append-only; the signal itself stays."""

    class Act(models.TextChoices):
        """KEEP lets the signal wait again for its interrupt; DISMISS removes it from the list of dead signals."""

        KEEP = "keep"
        DISMISS = "dismiss"

    signal = models.ForeignKey(Signal, on_delete=models.PROTECT, related_name="+", db_index=False)
    act = models.CharField(max_length=7, choices=Act.choices)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=300)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["signal"], condition=models.Q(act="dismiss"), name="a_signal_is_dismissed_once"
            ),
        ]
        indexes = [models.Index(fields=["signal", "id"], name="acts_on_a_signal")]

    def __str__(self) -> str:
        return f"{self.act} {self.signal_id}"


class UnknownOutcome(Effect):
    """An effect with an unknown outcome, in the reconciliation admin. A proxy of the same rows."""

    class Meta:
        proxy = True
        verbose_name = "unknown outcome"


class NotificationPreferences(models.Model):
    """How one person wants to be notified. Without a row: mail at once, about everything."""

    class Frequency(models.TextChoices):
        AT_ONCE = "at_once", _("At once")
        HOURLY = "hourly", _("Once an hour")
        DAILY = "daily", _("Once a day")

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notification_preferences"
    )
    by_mail = models.BooleanField(default=True)
    frequency = models.CharField(max_length=7, choices=Frequency.choices, default=Frequency.AT_ONCE)
    daily_at = models.TimeField(default=time(8), help_text="of a daily digest, in the person's time zone")
    quiet_from = models.TimeField(null=True, help_text="quiet hours begin; they can span midnight")
    quiet_until = models.TimeField(null=True)
    time_zone = models.CharField(max_length=60, blank=True, help_text="an IANA name; empty: UTC")
    language = models.CharField(
        max_length=12, blank=True, default="", db_default="", help_text="a code; empty: the browser's, English in mail"
    )
    muted = models.JSONField(default=list, help_text="kinds of notifications that the person does not want")

    def __str__(self) -> str:
        return f"of {self.person_id}"


class QueueNotificationPreference(models.Model):
    """From which risk on a person is notified about the requests of one queue. Without a row: every request."""

    class MinRisk(models.TextChoices):
        LOW = "low", _("Every request")
        MEDIUM = "medium", _("Medium and high risk")
        HIGH = "high", _("High risk only")
        NONE = "none", pgettext_lazy("risk from which on to notify", "None")

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="+", db_index=False)
    min_risk = models.CharField(max_length=6, choices=MinRisk.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "queue"], name="one_notification_preference_per_queue")
        ]

    def __str__(self) -> str:
        return f"{self.min_risk} of {self.queue_id}"


class ChatChannel(models.Model):
    """A chat room or webhook that is notified about a queue. Its address contains secrets, so the row only names the
    environment variable that contains it.
    """

    public_id = models.CharField(max_length=40, unique=True)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="+")
    variable = models.CharField(max_length=100, help_text="the environment variable that contains the Apprise URL")
    min_risk = models.CharField(max_length=6, choices=QueueNotificationPreference.MinRisk.choices)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "variable"],
                condition=models.Q(removed_at__isnull=True),
                name="one_chat_channel_per_variable_of_a_queue",
            )
        ]

    def __str__(self) -> str:
        return f"{self.variable} of {self.queue_id}"


class NotificationCursor(models.Model):
    """The last event of an agent's feed that notifications were derived from. Its lock orders these transactions."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.agent_id}: {self.last_seq}"


class NotificationService(models.Model):
    """The state of a part that one worker at a time runs: sending ``mail`` and ``chat``, and ``rows``, which composes
    messages and reads the rows without an event.
    """

    name = models.CharField(max_length=10, primary_key=True)
    rest_until = models.DateTimeField(null=True, help_text="nothing is sent before: backoff, or a worker is sending")
    failures = models.PositiveIntegerField(default=0, help_text="failures of the server in a row")
    read_until = models.DateTimeField(null=True, help_text="of ``rows``: later rows were not read yet")

    def __str__(self) -> str:
        return self.name


class MessageStatus(models.TextChoices):
    """``due`` is open. The others are final, unless a person sends the message again.

    ``void``: nothing of the message concerns its recipient any more.
    """

    DUE = "due"
    SENT = "sent"
    DEAD = "dead"
    VOID = "void"


#: Transition -> (allowed statuses before, status after).
MESSAGE_MOVES: dict[str, tuple[frozenset[str], str]] = {
    "postpone": (frozenset({MessageStatus.DUE}), MessageStatus.DUE),
    "send": (frozenset({MessageStatus.DUE}), MessageStatus.SENT),
    "give up": (frozenset({MessageStatus.DUE}), MessageStatus.DEAD),
    "void": (frozenset({MessageStatus.DUE}), MessageStatus.VOID),
    "resend": (frozenset({MessageStatus.DEAD}), MessageStatus.DUE),
}


class NotificationMessage(models.Model):
    """One mail or chat message with the same message id in every attempt. Its text is rendered when it is sent."""

    class Channel(models.TextChoices):
        MAIL = "mail"
        CHAT = "chat"

    public_id = models.CharField(max_length=40, unique=True)
    channel = models.CharField(max_length=4, choices=Channel.choices)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    chat = models.ForeignKey(ChatChannel, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    status = models.CharField(max_length=4, choices=MessageStatus.choices, default=MessageStatus.DUE)
    attempt = models.PositiveIntegerField(default=0, help_text="number of attempts, counted before each one")
    tries = models.PositiveIntegerField(default=0, help_text="attempts since it was created or sent again")
    next_at = models.DateTimeField(null=True)
    give_up_at = models.DateTimeField(help_text="a dead letter after this time")
    trouble = models.CharField(max_length=300, blank=True, help_text="why the last attempt failed")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(person__isnull=True) ^ models.Q(chat__isnull=True),
                name="a_message_is_for_a_person_or_a_chat",
            )
        ]
        indexes = [
            models.Index(
                fields=["channel", "next_at", "id"],
                condition=models.Q(status=MessageStatus.DUE),
                name="notifications_due",
            ),
            models.Index(
                fields=["status", "ended_at"],
                condition=models.Q(ended_at__isnull=False),
                name="notifications_that_ended",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class NotificationAttempt(models.Model):
    """One attempt, stored before the call. Without an end, its worker died during the call."""

    message = models.ForeignKey(NotificationMessage, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    trouble = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "number"], name="one_row_per_attempt_of_a_message")]

    def __str__(self) -> str:
        return f"attempt {self.number}"


class Notification(models.Model):
    """One event for one recipient. It contains ids and numbers, never text of agents or people.

    Without a message, it waits for a digest or for the end of quiet hours.
    """

    kind = models.CharField(max_length=20, help_text="reviewqueue.notifications.kinds")
    key = models.CharField(max_length=120, help_text="of the event, so that each recipient gets it once")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    chat = models.ForeignKey(ChatChannel, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    details = models.JSONField(default=dict, help_text="numbers and names of queues and endpoints")
    message = models.ForeignKey(NotificationMessage, on_delete=models.CASCADE, null=True, related_name="notifications")
    in_digest = models.BooleanField(default=False, help_text="it shares a message with others of its recipient")
    compose_at = models.DateTimeField(help_text="when its message is created")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "key"],
                condition=models.Q(person__isnull=False),
                name="one_notification_of_an_event_per_person",
            ),
            models.UniqueConstraint(
                fields=["chat", "key"],
                condition=models.Q(chat__isnull=False),
                name="one_notification_of_an_event_per_chat",
            ),
        ]
        indexes = [
            models.Index(
                fields=["compose_at", "id"],
                condition=models.Q(message__isnull=True),
                name="notifications_to_compose",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class PersonActivity(models.Model):
    """When a person last used the pages, to within a few minutes."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.person_id} at {self.seen_at:%Y-%m-%d %H:%M} UTC"


class RollupGroup(models.Model):
    """An agent and the queues of an interrupt or a run, whose rows a rollup counts together."""

    agent = models.BigIntegerField(help_text="the agent's primary key; 0: of no known run")
    queues = models.TextField(blank=True, help_text="primary keys of queues, joined by commas")
    queues_digest = models.CharField(max_length=64, help_text="SHA-256 of queues, which can be too long for an index")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "queues_digest"], name="one_rollup_group")]

    def __str__(self) -> str:
        return f"{self.agent}: {self.queues}"


class RollupCell(models.Model):
    """A stored count of the insights and metrics; without a day it is of the present (`rollups/cells.py`)."""

    group = models.ForeignKey(RollupGroup, on_delete=models.PROTECT, related_name="+", db_index=False)
    day = models.DateField(null=True, help_text="in UTC")
    measure = models.CharField(max_length=20)
    part = models.CharField(max_length=100, blank=True)
    bucket = models.BigIntegerField(default=0, help_text="seconds, or the number of a day")
    number = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["measure", "day"], name="rollups_of_a_measure")]

    def __str__(self) -> str:
        return f"{self.day} {self.measure} {self.part} {self.number}"


class RollupTotal(models.Model):
    """The sum of a measure over all days, for the metrics."""

    measure = models.CharField(max_length=20)
    part = models.CharField(max_length=100, blank=True)
    number = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["measure", "part"], name="one_rollup_total")]

    def __str__(self) -> str:
        return f"{self.measure} {self.part} {self.number}"


class RollupDueDay(models.Model):
    """A day to count (again). ``is_new``: it was never counted. Each change makes a new row, with another primary key."""

    day = models.DateField(unique=True)
    is_new = models.BooleanField(default=False)

    def __str__(self) -> str:
        return str(self.day)


class RollupCursor(models.Model):
    """The last event of an agent's feed whose days were marked as due."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.agent_id}: {self.last_seq}"


class RollupState(models.Model):
    """One row: when the days and the present were counted, and when they are counted next."""

    counted_at = models.DateTimeField(help_text="all changes before it are in the stored counts of days")
    open_counted_at = models.DateTimeField(null=True, help_text="the time of the counts of the present")
    next_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.counted_at}"
