"""Examples of requests and responses, as exact text. Tests validate them.

They all belong to one purchase, which needs a certificate and an approval.
"""

from __future__ import annotations

_WAIT = """{"key": "certificate", "reason": "evidence.missing", "queue": "engineering",
 "title": "Certificate for crane 14", "message": "The supplier's copy has *expired*.", "external_id": "tool_call_7",
 "input_schema": {"type": "object", "required": ["certificate_no"], "properties": {"certificate_no": {"type": "string"}}},
 "verdicts": ["answer", "decline"], "deadline_in": "P2D", "on_expiry": {"do": "cancel"}, "risk": "high", "priority": 50,
 "evidence": [{"label": "Supplier check S-17", "value": "passed", "source": "supplier register"}],
 "facts": [{"name": "specification", "value": 7, "on_change": "replan", "check": "worker"}],
 "metadata": {"purchase_request": "PR-4711"}}"""
_MARK = """{"id": "int_7m2k4x", "key": "certificate", "status": "waiting", "state_version": 1,
 "deadline": "2026-12-01T11:00:00.000000Z", "url": "https://desk.example/interrupts/int_7m2k4x"}"""
_DIGEST = "rq1:9f2c1d0e8b7a6f5e4d3c2b1a09f8e7d6c5b4a3928170f6e5d4c3b2a190817263"
_MAC = "9f2c41d07be86a35" * 4
_LEASE = f"""{{"token": "lse_1_{_MAC}", "expires_at": "2026-11-29T11:01:00.000000Z", "fence": 1}}"""
_ANSWER = """{"verdict": "answer", "input": {"certificate_no": "LT-2026-0917"}, "arguments": null, "changed": [],
 "message": null, "decided_by": "ana@example.org", "decided_at": "2026-11-29T12:00:00.000000Z", "decision": "dec_5t8w2q",
 "cause": "person", "permit": null, "new": true}"""

ASK = """{"key": "PR-4711", "title": "Order the hoist", "reason": "approval.action", "queue": "engineering",
 "proposal": {"name": "issue_order", "arguments": {"supplier": "S-17", "amount": "184000.00"}}, "state": {"row": 7}}"""
ASKED = f"""{{"interrupt": {_MARK}, "run": {{"id": "run_4k7m2p", "status": "waiting"}},
 "url": "https://desk.example/interrupts/int_7m2k4x"}}"""
ASK_BATCH = f"""{{"asks": [{ASK}]}}"""
ASKED_BATCH = f"""{{"asks": [{{"status": 201, "ask": {ASKED}}}]}}"""
RUN = """{"key": "PR-4711", "title": "Purchase request PR-4711", "code_version": "2.4.1", "metadata": {"site": "north"}}"""
STARTED = f"""{{"id": "run_4k7m2p", "key": "PR-4711", "status": "running", "epoch": 1, "checkpoint": 0,
 "lease": {_LEASE}, "continuation": null}}"""
CHECKPOINT = """{"after": 0, "step": "suppliers-checked", "state": {"offers": {"S-17": "184000.00"}}}"""
REACHED = f"""{{"number": 1, "digest": "{_DIGEST}", "control": "continue"}}"""
SUSPEND = f"""{{"after": 1, "checkpoint": {{"step": "ask-certificate", "state": {{"offers": 2}}}},
 "interrupts": [{_WAIT}]}}"""
SUSPENDED = f"""{{"run": {{"id": "run_4k7m2p", "status": "waiting"}}, "checkpoint": {{"number": 2, "digest": "{_DIGEST}"}},
 "interrupts": [{_MARK}], "answers": {{}}, "cancel_effects": []}}"""
DECISION = """{"state_version": 1, "verdict": "answer", "input": {"certificate_no": "LT-2026-0917"}}"""
RECEIPT = f"""{{"decision": "dec_5t8w2q", "status": "accepted", "interrupt": {{"id": "int_7m2k4x", "status": "answered"}},
 "verdict": "answer", "state_version": 1, "decided_by": "ana@example.org", "decided_at": "2026-11-29T12:00:00.000000Z",
 "digest": "{_DIGEST}", "permit": null, "resume": "checking"}}"""
DECISION_BATCH = """{"decisions": [{"interrupt": "int_7m2k4x", "state_version": 1, "verdict": "answer",
 "input": {"certificate_no": "LT-2026-0917"}}]}"""
DECIDED_BATCH = f"""{{"decisions": [{{"status": 201, "receipt": {RECEIPT}}}]}}"""
CLAIM = """{"code_version": "2.4.1", "accepts": ["2.4.0"], "max": 1, "wait": 0}"""
CLAIMED = f"""[{{"id": "con_8r3n6y", "kind": "resume", "cause": "person", "attempt": 1, "traceparent": null,
 "run": {{"id": "run_4k7m2p", "key": "PR-4711", "title": "Purchase request PR-4711", "epoch": 1, "code_version": "2.4.1",
         "metadata": {{"site": "north"}}}},
 "lease": {_LEASE},
 "checkpoint": {{"number": 2, "step": "ask-certificate", "replay_from": "", "state": {{"offers": 2}}, "format": "json",
                "digest": "{_DIGEST}", "code_version": "2.4.1"}},
 "answers": {{"certificate": {_ANSWER}}}, "overtaken": {{}}, "changed": [],
 "facts": [{{"name": "specification", "value": 7, "now": null, "check": "worker", "kind": "value", "valid": null}}],
 "effects": [], "more_effects": null, "more_answers": null, "permits": [],
 "more_permits": null, "compensations": [], "more_compensations": null}}]"""
EFFECT = """{"name": "ask_offer", "arguments": {"to": "S-17"}}"""
BEGUN = f"""{{"key": "rfq:PR-4711:1", "status": "intended", "perform": true, "attempt": 1, "attempt_token": "att_1_{_MAC}",
 "arguments": {{"to": "S-17"}}, "digest": "{_DIGEST}"}}"""
OUTCOME = f"""{{"attempt_token": "att_1_{_MAC}", "status": "applied", "receipt": {{"mail": 7}}}}"""
INTERRUPT = f"""{{"id": "int_7m2k4x", "key": "certificate", "status": "waiting", "state_version": 1,
 "deadline": "2026-12-01T11:00:00.000000Z", "url": "https://desk.example/interrupts/int_7m2k4x", "kind": "input",
 "reason": "evidence.missing", "round": 1, "queue": "engineering", "correlation": null,
 "risk": "high", "priority": 50, "title": "Certificate for crane 14",
 "run": {{"id": "run_4k7m2p", "title": "Purchase request PR-4711"}},
 "created_at": "2026-11-29T11:00:00.000000Z", "answered_at": null, "content_digest": "{_DIGEST}", "assignees": [],
 "message": "The supplier's copy has *expired*.", "proposal": null, "input_schema": {{"type": "object"}},
 "verdicts": ["answer", "decline"], "evidence": [], "facts": [], "on_expiry": {{"do": "cancel"}},
 "approvals": {{"needed": 1, "counted": 0}},
 "policy": {{"reason": "evidence.missing", "version": 1, "agent": null}}, "parents": [], "duplicates": [],
 "claimed_by": null, "claimed_until": null, "external_id": "tool_call_7",
 "metadata": {{"purchase_request": "PR-4711"}}, "may_decide": true, "why_not": null, "decision": null, "resume": null}}"""
