"""The package: the blocking client is the asynchronous one, and nothing of the server is imported."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from reviewqueue_client import DigestMismatch, EffectFailed, NotPerformed, Refused, RunEnded, Stopped, Unreachable

PACKAGE = Path(__file__).parents[1]


def test_the_blocking_client_is_derived_from_the_asynchronous_one():
    # If this fails, run `python clients/python/make_sync.py`, then the formatter.
    done = subprocess.run([sys.executable, PACKAGE / "make_sync.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_needs_neither_django_nor_the_server():
    script = (
        "import sys, reviewqueue_client.testing; print(sorted({'django', 'reviewqueue', 'runs'} & set(sys.modules)))"
    )
    source = str(PACKAGE / "src")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd="/", env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert (PACKAGE / "src" / "reviewqueue_client" / "py.typed").exists()


@pytest.mark.parametrize(
    "error",
    [
        Refused(409, {"code": "already_decided", "detail": "It is decided.", "retryable": False}),
        Unreachable("GET runs: no answer", 502),
        RunEnded("run_1", "failed", {"reason": "no crew"}),
        EffectFailed("order", None),
        DigestMismatch("sha256:aa", "sha256:bb"),
        NotPerformed("not sent"),
        Stopped("pause"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling_as_engines_store_it(error: BaseException):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
