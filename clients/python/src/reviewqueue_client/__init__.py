"""Client of Review Queue: agents whose runs wait for people, survive a kill, and repeat no effect."""

from __future__ import annotations

from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client._async.run import AsyncRun, AsyncRunHandle
from reviewqueue_client._async.worker import AsyncWorker
from reviewqueue_client._sync.client import Client
from reviewqueue_client._sync.delivery import Answers
from reviewqueue_client._sync.run import Run, RunHandle
from reviewqueue_client._sync.worker import Worker
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import (
    DigestMismatch,
    EffectFailed,
    NotPerformed,
    Refused,
    ReviewQueueError,
    RunEnded,
    Stopped,
    Unreachable,
)
from reviewqueue_client.retries import Retries
from reviewqueue_client.values import Answer, Attachment, Compensation, Proposal, Question, Request

__all__ = [
    "Answer",
    "Answers",
    "AsyncAnswers",
    "AsyncClient",
    "AsyncRun",
    "AsyncRunHandle",
    "AsyncWorker",
    "Attachment",
    "Client",
    "Compensation",
    "DigestMismatch",
    "EffectFailed",
    "NotPerformed",
    "Outcome",
    "Proposal",
    "Question",
    "Refused",
    "Request",
    "Retries",
    "ReviewQueueError",
    "Run",
    "RunEnded",
    "RunHandle",
    "Stopped",
    "Unreachable",
    "Worker",
]
