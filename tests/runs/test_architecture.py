"""docs/architecture.md and the code agree: the transition tables, and the one place where runs and interrupts are locked."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from django.conf import settings

from ledger.states import EFFECT_TRANSITIONS
from runs.states import (
    CONTINUATION_TRANSITIONS,
    DECISION_TRANSITIONS,
    FILE_TRANSITIONS,
    INTERRUPT_TRANSITIONS,
    HoldKind,
    RunStatus,
)

PAGE = (settings.ROOT / "docs" / "architecture.md").read_text()
TABLES = {
    "Interrupt": INTERRUPT_TRANSITIONS,
    "Decision": DECISION_TRANSITIONS,
    "Continuation": CONTINUATION_TRANSITIONS,
    "Effect": EFFECT_TRANSITIONS,
    "Checkpoint file": FILE_TRANSITIONS,
}


def rows_below(heading: str) -> list[list[str]]:
    section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


def listed(statuses: str | Iterable[str]) -> str:
    return str(statuses) if isinstance(statuses, str) else ", ".join(sorted(map(str, statuses)))


@pytest.mark.parametrize("heading", TABLES)
def test_a_transition_table_of_the_documentation_is_that_of_the_code(heading: str):
    documented = rows_below(heading)[2:]
    assert documented == [[verb, listed(before), listed(after)] for verb, (before, after) in TABLES[heading].items()]


def test_every_status_and_every_hold_that_code_opens_is_documented():
    section = PAGE.split("## Status of a run")[1].split("## Transition tables")[0]
    assert [status for status in RunStatus if f"`{status}`" not in section] == []
    assert [kind for kind in HoldKind if f"| `{kind}` |" not in section and kind != HoldKind.NO_DECIDER] == []


def test_runs_and_interrupts_are_locked_in_one_module_only():
    sources = [
        path
        for package in ("ledger", "runs", "reviewqueue")
        for path in (settings.ROOT / package).rglob("*.py")
        if "select_for_update(" in path.read_text()
    ]
    locking = {str(path.relative_to(settings.ROOT)) for path in sources}
    assert locking == {
        "ledger/effects.py",  # effects
        "ledger/in_flight.py",
        "reviewqueue/drafts.py",  # the draft of one person
        "reviewqueue/notifications/derivation.py",  # the cursor of an agent's feed
        "reviewqueue/notifications/messages.py",  # one message, or the state of a channel
        "reviewqueue/operations/administration.py",  # an agent
        "reviewqueue/operations/people.py",  # the group of operators
        "reviewqueue/operations/provisioning/keys.py",  # a key of an agent
        "reviewqueue/operations/provisioning/people.py",  # accounts, before the end of the chain
        "reviewqueue/queries/dead_letters.py",  # one signal, after everything else
        "reviewqueue/rollups/counting.py",  # the cursor of the stored counts
        "reviewqueue/webhooks/deliveries.py",  # endpoints of webhooks, which no run's transaction locks
        "reviewqueue/webhooks/endpoints.py",
        "runs/configuration_history.py",  # the end of the configuration's chain
        "runs/event_feed.py",  # the numbering of a feed
        "runs/locks.py",
        "runs/standing_rules.py",  # one rule, after everything else
    }
