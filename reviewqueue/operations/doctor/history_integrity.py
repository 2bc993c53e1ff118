"""Checks that find a rewritten history where each run's own hash chain looks intact.

An attacker who can write every row can cut the end off a chain and adjust the run's row. The feed of the agent then has a
gap, because every event has a number there. Anchors find a rewritten feed too: the heads of all chains at an earlier time,
stored elsewhere (`manage.py anchors`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import F, Max, OuterRef, Q, Subquery, Value, Window
from django.db.models.functions import Coalesce, Lag, Mod

from reviewqueue.operations.doctor.findings import Finding
from runs.models import ConfigurationRecord, Event, Feed, Run
from runs.use_cases.hold_after_restore import FENCE_INCREASE

#: The chain of configuration records, among the anchors of runs.
CONFIGURATION = "configuration"
_RUN = re.compile(f"[a-z]{{3}}_[0-9a-z]{{1,36}}|{CONFIGURATION}")


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """The last number and digest of a run's timeline, or of the configuration's chain, at an earlier time."""

    run: str
    seq: int
    head: str


def anchors() -> Iterator[Anchor]:
    """Return the present end of every run's timeline and of the configuration's chain."""
    rows = Run.objects.order_by("pk").values_list("public_id", "timeline_seq", "timeline_head")
    for run, seq, head in rows.iterator():
        yield Anchor(run=run, seq=seq, head=head)
    newest = ConfigurationRecord.objects.order_by("-seq").first()
    if newest is not None:
        yield Anchor(run=CONFIGURATION, seq=newest.seq, head=newest.digest)


def read_anchors(lines: Iterable[str]) -> Iterator[Anchor]:
    """Parse the output of `manage.py anchors`. Raises ``ValueError`` for any other line."""
    for number, line in enumerate(lines, start=1):
        try:
            members = json.loads(line)
            run, seq, head = members["run"], members["seq"], members["head"]
            is_anchor = type(seq) is int and _RUN.fullmatch(run) and isinstance(head, str)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"line {number} is not an anchor") from error
        if not is_anchor:
            raise ValueError(f"line {number} is not an anchor")
        yield Anchor(run=run, seq=seq, head=head)


def broken_anchors(kept: Iterable[Anchor]) -> Iterator[Finding]:
    """Find timelines that no longer contain the event of an anchor."""
    for anchor in kept:
        there = _digest_at(anchor)
        if there != anchor.head:
            fault = "is missing" if there is None else "is not the recorded one"
            message = f"{anchor.run}: event {anchor.seq} of the anchor {fault}. The timeline was rewritten."
            yield Finding(check="anchors", message=message)


def _digest_at(anchor: Anchor) -> str | None:
    if anchor.run == CONFIGURATION:
        records = ConfigurationRecord.objects.filter(seq=anchor.seq)
        return records.values_list("digest", flat=True).first()
    events = Event.objects.filter(run__public_id=anchor.run, seq=anchor.seq)
    return events.values_list("digest", flat=True).first()


def feed_gaps() -> Iterator[Finding]:
    """Find numbers of a feed without an event, also after the last one. The jump after a restored backup is no gap."""
    before = Window(Lag("announced_seq", default=Value(0)), partition_by="agent", order_by="announced_seq")
    numbered = Event.objects.filter(announced_seq__isnull=False).annotate(gap=F("announced_seq") - before - 1)
    broken = numbered.annotate(off=Mod("gap", FENCE_INCREASE)).filter(~Q(off=0)).order_by("agent", "announced_seq")
    for slug, seq, gap in broken.values_list("agent__slug", "announced_seq", "gap"):
        yield Finding(
            check="feed",
            message=f"The event feed of {slug} has a gap: {gap % FENCE_INCREASE} missing before number {seq}.",
        )
    newest = Event.objects.filter(agent=OuterRef("pk")).values("agent").annotate(at=Max("announced_seq")).values("at")
    ends = Feed.objects.annotate(cut=Mod(F("last_seq") - Coalesce(Subquery(newest), Value(0)), FENCE_INCREASE)).exclude(
        cut=0
    )
    for slug, last, cut in ends.order_by("pk").values_list("agent__slug", "last_seq", "cut"):
        yield Finding(
            check="feed",
            message=f"The event feed of {slug} has a gap at its end: {int(cut)} missing up to number {last}.",
        )
