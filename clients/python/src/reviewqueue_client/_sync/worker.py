# Derived from `_async` by make_sync.py; change that instead.
"""The worker loop: claims runs, calls the function of their step, and ends or returns them."""

from __future__ import annotations

import logging
import signal
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reviewqueue_client._sync.platform import Function, call, sleep
from reviewqueue_client._sync.run import Run
from reviewqueue_client.errors import Refused, ReviewQueueError, Stopped
from reviewqueue_client.retries import seconds_of
from reviewqueue_client.traces import continued_trace

if TYPE_CHECKING:
    from reviewqueue_client._sync.client import Client

log = logging.getLogger("reviewqueue_client")


class Worker:
    """Claims runs of one agent, one at a time; start more processes to work on more runs at once.

    ``code_version`` and ``accepts``: only runs whose checkpoints this code can read are claimed.
    """

    def __init__(
        self, client: Client, *, code_version: str, accepts: tuple[str, ...], lease_seconds: int, wait: int
    ) -> None:
        self._client, self._lease_seconds, self._wait = client, lease_seconds, wait
        self._wanted: dict[str, Any] = {"max": 1, "lease_seconds": lease_seconds}
        self._wanted |= {"code_version": code_version} if code_version else {}
        self._wanted |= {"accepts": list(accepts)} if accepts else {}
        self._steps: dict[str, Function] = {}
        self._every_step: Function | None = None
        self._compensations: dict[str, Function] = {}
        self._stopping = False
        self._current: Run | None = None

    def step(self, name: str) -> Callable[[Function], Function]:
        """Register the function of a step. A new run begins at the step `start`, a run of `POST asks` at `ask`."""

        def register(function: Function) -> Function:
            self._steps[name] = function
            return function

        return register

    def every_step(self, function: Function) -> Function:
        """Register one function for every step that has none of its own."""
        self._every_step = function
        return function

    def compensation(self, name: str) -> Callable[[Function], Function]:
        """Register the function of a compensation. It gets the arguments, and the receipt of the effect to undo."""

        def register(function: Function) -> Function:
            self._compensations[name] = function
            return function

        return register

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop`` is called or the process gets SIGTERM or SIGINT.

        An error of a function is logged, and the run is released after a while. A server that cannot be reached is tried
        again without end.
        """
        self._stop_at_signals()
        failures = 0
        while not self._stopping:
            try:
                self.run_once()
                failures = 0
            except ReviewQueueError as error:
                if isinstance(error, Refused) and not error.retryable and error.code != "agent_halted":
                    raise
                failures += 1
                delay = self._client.retries.delay(failures)
                log.warning("claiming failed (%s); next attempt in %.1f s", error, delay)
                sleep(delay)

    def run_once(self, *, wait: int | None = None) -> int:
        """Claim at most one run and work on it. Returns how many runs were claimed: 0 or 1."""
        seconds = self._wait if wait is None else wait
        claimed, headers = self._client.exchange(
            "POST",
            "continuations/claim",
            self._wanted | {"wait": seconds},
            idempotency_key=str(uuid.uuid4()),
            wait=seconds,
        )
        for claim in claimed:
            try:
                self.perform(claim)
            except Exception:
                log.exception("the run %s failed here and was released", claim["run"]["key"])
        if not claimed:
            sleep(seconds_of(headers.get("Retry-After")))
        return len(claimed)

    def stop(self) -> None:
        """Let the worker end: a run stops at its next safe point and is released."""
        self._stopping = True
        if self._current is not None:
            self._current.stop()

    def _stop_at_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                signal.signal(number, lambda *_: self.stop())
            except ValueError:  # not in the main thread: its program stops the worker
                return

    # --- one run ------------------------------------------------------------------------------------------------------

    def perform(self, claim: Mapping[str, Any]) -> None:
        """Work on a claimed run until it is suspended, stopped or ended. Errors of functions are raised."""
        with continued_trace(claim.get("traceparent")):
            self._perform(claim)

    def _perform(self, claim: Mapping[str, Any]) -> None:
        with Run(self._client, claim, lease_seconds=self._lease_seconds) as run:
            self._current = run
            if self._stopping:
                run.stop()
            try:
                if claim["kind"] == "compensate":
                    self._compensate(run, claim)
                else:
                    self._continue(run)
            except Stopped as stopped:
                log.debug("the run %s stopped here: %s", run.key, stopped.reason)
            except Refused as refused:
                reason = "incompatible" if refused.code == "step_mismatch" else "retry"
                self._give_back(run, refused, reason)
                raise
            except BaseException as error:
                self._give_back(run, error, "retry")
                raise
            finally:
                self._current = None

    def _continue(self, run: Run) -> None:
        run.read_more_answers()
        while True:
            step, number = run.step_name, run.checkpoint_number
            function = self._steps.get(step, self._every_step)
            if function is None:
                run.release("unknown_checkpoint", f"no function is registered for the step {step}")
                return
            result = call(function, run)
            if run.ended:
                return
            if run.checkpoint_number == number:  # a checkpoint can continue at the same step
                run.complete(result)
                return

    def _compensate(self, run: Run, claim: Mapping[str, Any]) -> None:
        due, has_more = claim["compensations"], bool(claim.get("more_compensations"))
        while due:
            for effect in due:
                function = self._compensations.get(effect["name"])
                if function is None:
                    raise LookupError(f"No function is registered for the compensation {effect['name']}.")
                run.compensate(effect, function)
            if not has_more:
                break
            page = self._client.call("GET", f"runs/{run.id}/compensations")
            due, has_more = page["compensations"], page["more"]
        run.ended = True

    def _give_back(self, run: Run, error: BaseException, reason: str) -> None:
        """Release the run; after repeated failures a little later, so that it is not claimed in a tight loop."""
        if isinstance(error, Exception) and run.attempt > 1:
            sleep(self._client.retries.delay(run.attempt - 1))
        run.release(reason, f"{type(error).__name__}: {error}")
