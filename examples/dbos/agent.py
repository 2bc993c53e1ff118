"""A purchase as a DBOS workflow: `python agent.py PR-1 PR-2`. Kill it whenever you like and start it again as it is.

DBOS recovers the workflows of a killed process. A thread sends them the answers; it can also run in a process of its own.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSClient, SetWorkflowID
from reviewqueue_client import Client
from reviewqueue_client.adapters.dbos import AnswerSender, ask

sys.path.insert(0, str(Path(__file__).parents[1]))
import supplier

DATABASE = os.environ.get("DBOS_DATABASE", "sqlite:///workflows.sqlite3")
client = Client()
DBOS(
    config={
        "name": "purchases",
        "system_database_url": DATABASE,
        "application_version": "1",
        "log_level": "ERROR",
        "run_admin_server": False,
        "notification_listener_polling_interval_sec": 0.1,
    }
)


@DBOS.step()
def issue_purchase_order(key: str, call: dict[str, Any]) -> dict[str, Any]:
    return supplier.issue_purchase_order(key, call)


@DBOS.workflow()
def purchase(key: str, deadline: str) -> Any:
    hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
    proposal = {"name": "issue_purchase_order", "arguments": hoist}
    question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing", "proposal": proposal}
    outcome = ask(client, "order", **question, deadline_in=deadline)
    if outcome.approved:
        return issue_purchase_order(key, outcome.arguments)
    return outcome.message or f"not ordered: {outcome.status}"


def main(keys: list[str]) -> None:
    DBOS.launch()  # recovers the workflows of a killed process
    sender = AnswerSender(client, DBOSClient(system_database_url=DATABASE))
    threading.Thread(target=sender.run, kwargs={"cursor": "dbos-events"}, daemon=True).start()
    for key in keys:
        with SetWorkflowID(key):  # the same id is the same workflow
            DBOS.start_workflow(purchase, key, os.environ.get("DEADLINE", "P2D"))
    for key in keys:
        print(json.dumps({key: DBOS.retrieve_workflow(key).get_result()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
