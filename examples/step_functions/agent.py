"""A purchase in AWS Step Functions: `python agent.py PR-1 PR-2`. Kill it whenever you like and start it again as it is.

Needs AWS, or an emulator at `AWS_ENDPOINT_URL`, and a key for the tokens in `REVIEW_QUEUE_TOKEN_KEYS`. The state machine
puts the token of each task into a queue. This process takes it from there, and sends the answer.
"""

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import boto3
from reviewqueue_client import Client
from reviewqueue_client.adapters.step_functions import AnswerSender, TaskRequests, TokenCipher

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

HEARTBEAT = int(os.environ.get("HEARTBEAT", "3600"))
ROLE = os.environ.get("ROLE", "arn:aws:iam::123456789012:role/purchases")
HOIST = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
sqs, engine = boto3.client("sqs"), boto3.client("stepfunctions")
tasks = sqs.create_queue(QueueName="purchase-tasks", Attributes={"VisibilityTimeout": "5"})["QueueUrl"]


def task(kind: str, **more: Any) -> dict[str, Any]:
    """Return a state that puts its token and its input into the queue and waits."""
    body = {"kind": kind, "token.$": "$$.Task.Token", "execution.$": "$$.Execution.Id", "input.$": "$"}
    parameters = {"QueueUrl": tasks, "MessageBody": body}
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "TimeoutSeconds": 31_536_000,
        "HeartbeatSeconds": HEARTBEAT,
        "Parameters": parameters,
        **more,
    }


PURCHASE = {
    "StartAt": "Approve",
    "States": {
        "Approve": task("approve", ResultPath="$.outcome", Next="Decide"),
        "Decide": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.outcome.answer.verdict", "StringEquals": "approve", "Next": "Order"},
                {"Variable": "$.outcome.answer.verdict", "StringEquals": "edit", "Next": "Order"},
            ],
            "Default": "NotOrdered",
        },
        "Order": task("order", End=True),
        "NotOrdered": {"Type": "Pass", "OutputPath": "$.outcome", "End": True},
    },
}


def ask(requests: TaskRequests, token: str, execution: str, asked: dict[str, Any]) -> None:
    proposal = {"name": "issue_purchase_order", "arguments": HOIST}
    question = {
        "title": f"Order {asked['key']}",
        "reason": "approval.action",
        "queue": "purchasing",
        "proposal": proposal,
    }
    requests.create(token, execution=execution, heartbeat=True, **question, deadline_in=asked["deadline"])


def order(token: str, asked: dict[str, Any]) -> None:
    receipt = issue_purchase_order(asked["key"], asked["outcome"]["arguments"])
    with contextlib.suppress(engine.exceptions.TaskTimedOut, engine.exceptions.InvalidToken):  # the message came twice
        engine.send_task_success(taskToken=token, output=json.dumps(receipt))


def take_tasks(requests: TaskRequests) -> None:
    while True:
        for message in sqs.receive_message(QueueUrl=tasks, WaitTimeSeconds=1).get("Messages", []):
            body = json.loads(message["Body"])
            if body["kind"] == "order":
                order(body["token"], body["input"])
            else:
                ask(requests, body["token"], body["execution"], body["input"])
            sqs.delete_message(QueueUrl=tasks, ReceiptHandle=message["ReceiptHandle"])


def start(machine: str, key: str) -> str:
    asked = json.dumps({"key": key, "deadline": os.environ.get("DEADLINE", "P2D")})
    try:
        return str(engine.start_execution(stateMachineArn=machine, name=key, input=asked)["executionArn"])
    except engine.exceptions.ExecutionAlreadyExists:  # the same key is the same execution
        return f"{machine.replace(':stateMachine:', ':execution:')}:{key}"


def result_of(execution: str) -> Any:
    while (found := engine.describe_execution(executionArn=execution))["status"] == "RUNNING":
        time.sleep(0.2)
    if found["status"] == "SUCCEEDED":
        result = json.loads(found["output"])
        return result if "order" in result else result["answer"]["message"] or "not ordered"
    return f"not ordered: {found.get('error', found['status']).removeprefix('ReviewQueue.').lower()}"


def main(keys: list[str]) -> None:
    client, cipher = Client(), TokenCipher(os.environ["REVIEW_QUEUE_TOKEN_KEYS"].split(","))
    threading.Thread(target=take_tasks, args=(TaskRequests(client, cipher),), daemon=True).start()
    sender = AnswerSender(client, engine, cipher, lease_seconds=5)
    every = min(HEARTBEAT / 4, 60)
    threading.Thread(target=sender.run, kwargs={"cursor": "aws-events", "every": every}, daemon=True).start()
    name, definition = f"Purchase-{HEARTBEAT}", json.dumps(PURCHASE)
    machine = engine.create_state_machine(name=name, definition=definition, roleArn=ROLE)["stateMachineArn"]
    executions = [start(machine, key) for key in keys]
    for key, execution in zip(keys, executions, strict=True):
        print(json.dumps({key: result_of(execution)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
