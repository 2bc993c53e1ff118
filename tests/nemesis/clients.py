"""The client of agents and people: calls to one of two web processes, each recorded, and repeated with its key."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.nemesis.history import OK, REFUSED, UNKNOWN, Record

SECONDS_TO_ANSWER = 6


@dataclass(frozen=True, kw_only=True)
class Script:
    """The start parameters of a client process, a JSON file."""

    name: str
    ports: list[int]
    token: str
    receiver: int
    folder: Path
    seed: int
    stop_file: Path  # once it is there, nothing new is begun, and what is open is brought to its end

    @classmethod
    def read(cls, path: str) -> Script:
        words = json.loads(Path(path).read_text())
        return cls(**words | {"folder": Path(words["folder"]), "stop_file": Path(words["stop_file"])})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a call."""

    outcome: str
    status: int = 0
    code: str = ""
    body: Any = None


class Client:
    """Calls with one API key, and records each call and its response."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.record = Record(script.folder, script.name)
        self.chance = random.Random(f"{script.seed} {script.name} {time.time_ns()}")
        self._keys = 0
        self.port = self.chance.randrange(2)

    def new_key(self) -> str:
        """Return a key that no other process has."""
        self._keys += 1
        return f"{self.script.name}-{time.time_ns()}-{self._keys}"

    def over(self) -> bool:
        return self.script.stop_file.exists()

    def call(
        self,
        verb: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        about: Mapping[str, Any] | None = None,
        tell: Callable[[Any], Mapping[str, Any]] = lambda body: {},
        tries: int = 8,
        **headers: str,
    ) -> Answer:
        """Repeat the call until its result is known or ``tries`` are used up; its key makes repeats harmless."""
        answer = Answer(outcome=UNKNOWN)
        for attempt in range(tries):
            number = self.record.begin(verb, about or {})
            answer = self._once(method, path, body, headers)
            told = tell(answer.body) if answer.outcome == OK else self._of_refusal(answer.body)
            self.record.end(number, outcome=answer.outcome, status=answer.status, code=answer.code, told=told)
            if answer.outcome != UNKNOWN:
                return answer
            self.port += 1  # the other one
            time.sleep(min(2.0, 0.2 * (attempt + 1)))
        return answer

    def _of_refusal(self, body: Any) -> dict[str, Any]:
        return {"winner": body["winner"]} if isinstance(body, dict) and "winner" in body else {}

    def _once(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        sent = None if body is None else json.dumps(body).encode()
        named = {"Authorization": f"Bearer {self.script.token}", "Content-Type": "application/json"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        port = self.script.ports[self.port % len(self.script.ports)]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_TO_ANSWER)
        try:
            connection.request(method, f"/api/v1/{path}", sent, named)
            reply = connection.getresponse()
            said = json.loads(reply.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Answer(outcome=UNKNOWN, code=f"network: {type(error).__name__}")
        finally:
            connection.close()
        if reply.status < 300:
            return Answer(outcome=OK, status=reply.status, body=said)
        code = said.get("code", "?") if isinstance(said, dict) else "?"
        outcome = REFUSED if reply.status < 500 and code != "busy" else UNKNOWN
        return Answer(outcome=outcome, status=reply.status, code=code, body=said)
