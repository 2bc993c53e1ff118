"""The workflow of the example."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow

sys.path.insert(0, str(Path(__file__).parents[1]))
with workflow.unsafe.imports_passed_through():
    import supplier
    from reviewqueue_client.adapters.temporal import ask


@activity.defn
async def issue_purchase_order(key: str, call: dict[str, Any]) -> dict[str, Any]:
    return supplier.issue_purchase_order(key, call)


@workflow.defn
class Purchase:
    @workflow.run
    async def run(self, key: str, deadline: str) -> Any:
        hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
        proposal = {"name": "issue_purchase_order", "arguments": hoist}
        question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing", "proposal": proposal}
        outcome = await ask("order", **question, deadline_in=deadline)
        if not outcome.approved:
            return outcome.message or f"not ordered: {outcome.status}"
        return await workflow.execute_activity(
            issue_purchase_order, args=[key, outcome.arguments], start_to_close_timeout=timedelta(minutes=1)
        )
