"""Was history rewritten by somebody who could write the rows? What a run's own chain cannot tell, its surroundings can.

A chain is whole again once its end is cut off and the run's row is made to fit. Then the feed of its agent has a gap, since
every event got a number there; and whoever mends that, too, is caught by anchors: the heads of all chains as they were,
written down elsewhere (`manage.py anchors`). Nothing is repaired here.
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
from runs.use_cases.hold_after_restore import LEAP

#: The chain of configuration records, among the anchors of runs.
CONFIGURATION = "configuration"
_RUN = re.compile(f"[a-z]{{3}}_[0-9a-z]{{1,36}}|{CONFIGURATION}")


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """Where a run's timeline, or the configuration's chain, ended once: its last number then, and that record's digest."""

    run: str
    seq: int
    head: str


def anchors() -> Iterator[Anchor]:
    """Return where every run's timeline stands now."""
    rows = Run.objects.order_by("pk").values_list("public_id", "timeline_seq", "timeline_head")
    for run, seq, head in rows.iterator():
        yield Anchor(run=run, seq=seq, head=head)
    newest = ConfigurationRecord.objects.order_by("-seq").first()
    if newest is not None:
        yield Anchor(run=CONFIGURATION, seq=newest.seq, head=newest.digest)


def read_anchors(lines: Iterable[str]) -> Iterator[Anchor]:
    """Read what `manage.py anchors` wrote. Raises ``ValueError`` for a line that it did not write."""
    for number, line in enumerate(lines, start=1):
        try:
            said = json.loads(line)
            run, seq, head = said["run"], said["seq"], said["head"]
            is_one = type(seq) is int and _RUN.fullmatch(run) and isinstance(head, str)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"line {number} is no anchor") from error
        if not is_one:
            raise ValueError(f"line {number} is no anchor")
        yield Anchor(run=run, seq=seq, head=head)


def missed_anchors(kept: Iterable[Anchor]) -> Iterator[Finding]:
    """Find runs whose timeline does not go through where it once stood."""
    for anchor in kept:
        there = _digest_at(anchor)
        if there != anchor.head:
            what = "is missing" if there is None else "is another one"
            words = f"{anchor.run}: event {anchor.seq} {what}, by its anchor: the timeline was rewritten"
            yield Finding(check="anchors", words=words)


def _digest_at(anchor: Anchor) -> str | None:
    if anchor.run == CONFIGURATION:
        records = ConfigurationRecord.objects.filter(seq=anchor.seq)
        return records.values_list("digest", flat=True).first()
    events = Event.objects.filter(run__public_id=anchor.run, seq=anchor.seq)
    return events.values_list("digest", flat=True).first()


def feed_gaps() -> Iterator[Finding]:
    """Find numbers of a feed whose event is gone, also behind the last one. A restored backup leaps, and leaves no gap."""
    before = Window(Lag("announced_seq", default=Value(0)), partition_by="agent", order_by="announced_seq")
    numbered = Event.objects.filter(announced_seq__isnull=False).annotate(gap=F("announced_seq") - before - 1)
    broken = numbered.annotate(off=Mod("gap", LEAP)).filter(~Q(off=0)).order_by("agent", "announced_seq")
    for slug, seq, gap in broken.values_list("agent__slug", "announced_seq", "gap"):
        yield Finding(check="feed", words=f"the feed of {slug} lacks {gap % LEAP} before number {seq}")
    newest = Event.objects.filter(agent=OuterRef("pk")).values("agent").annotate(at=Max("announced_seq")).values("at")
    ends = Feed.objects.annotate(cut=Mod(F("last_seq") - Coalesce(Subquery(newest), Value(0)), LEAP)).exclude(cut=0)
    for slug, last, cut in ends.order_by("pk").values_list("agent__slug", "last_seq", "cut"):
        yield Finding(check="feed", words=f"the feed of {slug} lacks its last {int(cut)}, up to number {last}")
