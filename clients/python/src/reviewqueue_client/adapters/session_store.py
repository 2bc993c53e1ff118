"""Session stores: a conversation is rebuilt from its transcript, and compared with what people decided on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from reviewqueue_client._sync.run import Run
from reviewqueue_client.values import Answer, Question

#: Name of the fact that states the conversation.
FACT = "conversation"
#: Characters of the added messages that a reviewer sees.
SHOWN = 2000

Context = Sequence[Mapping[str, Any]]


def ask(run: Run, key: str, context: Context, **question: Unpack[Question]) -> Answer:
    """Return the answer to a request that is about this conversation; without one, suspend the run until people answer.

    ``context``: everything that the model reads, as JSON, rebuilt from the transcript in each execution, without what this
    run writes after the answer. If it differs from what people decided on, the answer does not count: the run is executed
    again, with the old answer in ``run.overtaken``, and its next request shows what changed.
    """
    seen = fact_of(context)
    given = run.answers.get(key)
    if given is not None:
        run.report_facts({FACT: seen})  # ends the execution if the conversation differs
        return given
    fact = {"name": FACT, "value": seen, "check": "worker", "on_change": "replan"}
    question["facts"] = [*question.get("facts", []), fact]
    drift = drift_of(run, context)
    if drift:
        question["evidence"] = [
            *question.get("evidence", []),
            {"label": "Changed since the last decision", "value": drift},
        ]
    return run.ask(key, **question)


def fact_of(context: Context) -> dict[str, Any]:
    """Return the number of messages, and the SHA-256 digest of their JSON with sorted members."""
    text = json.dumps(list(context), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return {"messages": len(context), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def drift_of(run: Run, context: Context) -> str:
    """Return how the conversation differs from the one of the answer that no longer counts; "" without such an answer."""
    [before] = [fact["value"] for fact in run.changed if fact["name"] == FACT] or [None]
    if before is None or not run.overtaken:
        return ""
    if fact_of(context[: before["messages"]]) != before:
        return "Messages that the last decision was about have been changed or removed."
    added = [f"{message.get('role', '')}: {message.get('content', '')}" for message in context[before["messages"] :]]
    text = "\n".join(added)
    missing = f"\n(and {len(text) - SHOWN} more characters)" if len(text) > SHOWN else ""
    return f"Added messages: {len(added)}\n\n{text[:SHOWN]}{missing}"
