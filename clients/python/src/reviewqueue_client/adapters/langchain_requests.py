"""LangChain's requests for tool calls, in its three formats, as requests here; and answers as LangChain's decisions.

The formats: one `HITLRequest` for all calls of a model turn, one `ToolApprovalRequest` for each call, and the older list of
`HumanInterrupt`. Arguments are passed unchanged in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reviewqueue_client.values import Answer

#: Of the older format, by verdict: the member of the request that allows it, and the type of the response.
_OLDER = {
    "approve": ("allow_accept", "accept"),
    "edit": ("allow_edit", "edit"),
    "reject": ("allow_ignore", "ignore"),
    "respond": ("allow_respond", "response"),
}


def is_known(value: Any) -> bool:
    """Return whether the value of an interrupt is a request of LangChain."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, Mapping) and "action_request" in one for one in value)
    return isinstance(value, Mapping) and ("action_requests" in value or value.get("type") == "tool_approval")


def requests_of(interrupt_id: str, value: Any, schema: Any) -> list[dict[str, Any]]:
    """Return one request for each tool call. Their keys are made of the interrupt's id and the place of the call."""
    return [
        {
            "key": key,
            "reason": "approval.action",
            "title": f"Call {name}",
            "message": description or "",
            "proposal": {"name": name, "arguments": arguments},
            "verdicts": list(verdicts),
            "external_id": external_id,
        }
        for key, name, arguments, description, verdicts, external_id in _calls(interrupt_id, value, schema)
    ]


def resume_of(value: Any, names: list[str], answers: list[Answer]) -> Any:
    """Return what resumes the interrupt. ``names``: of the tools, in the order of ``answers``."""
    if isinstance(value, list):
        return [_older_decision(name, answer) for name, answer in zip(names, answers, strict=True)]
    decisions = [_decision(name, answer) for name, answer in zip(names, answers, strict=True)]
    return {"decisions": decisions} if "action_requests" in value else decisions[0]


def _calls(interrupt_id: str, value: Any, schema: Any) -> Iterator[tuple[str, str, Any, Any, Any, Any]]:
    if isinstance(value, list):
        for place, one in enumerate(value):
            action, config = one["action_request"], one["config"]
            verdicts = [verdict for verdict, (allowed, _) in _OLDER.items() if config.get(allowed)]
            yield f"{interrupt_id}.{place}", action["action"], action["args"], one.get("description"), verdicts, None
    elif "action_requests" in value:
        allowed = {config["action_name"]: config["allowed_decisions"] for config in value["review_configs"]}
        for place, one in enumerate(value["action_requests"]):
            key = f"{interrupt_id}.{place}"
            yield key, one["name"], one["args"], one.get("description"), allowed[one["name"]], None
    else:  # one call; its schema says which decisions are allowed
        several = schema.get("discriminator", {}).get("mapping")
        verdicts = several or [schema["properties"]["type"]["const"]]
        yield interrupt_id, value["name"], value["args"], value["description"], verdicts, value["tool_call_id"]


def _decision(name: str, answer: Answer) -> dict[str, Any]:
    verdict = answer.verdict or "reject"  # no verdict: the deadline passed
    if verdict == "edit":
        return {"type": "edit", "edited_action": {"name": name, "args": answer.arguments}}
    if verdict == "respond" or (verdict == "reject" and answer.message is not None):
        return {"type": verdict, "message": answer.message}
    return {"type": verdict}


def _older_decision(name: str, answer: Answer) -> dict[str, Any]:
    verdict = answer.verdict or "reject"
    edited = {"action": name, "args": answer.arguments} if verdict == "edit" else None
    return {"type": _OLDER[verdict][1], "args": answer.message if verdict == "respond" else edited}
