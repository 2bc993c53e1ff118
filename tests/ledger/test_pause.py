"""A pause lasts as long as it should, also in a process with a wrong clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ledger.pause import pause
from tests.nemesis.world import faketime_library


def test_a_pause_lasts_as_long_as_it_should():
    began = time.monotonic()
    pause(0.05)
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("wrong_by", ["+3600s", "-3600s"])
def test_a_pause_works_with_a_wrong_clock(wrong_by: str):
    library = faketime_library()
    if library is None:
        pytest.skip("no libfaketime")
    clock = {"LD_PRELOAD": library, "FAKETIME": wrong_by, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    program = "from ledger.pause import pause; pause(0.05)"
    subprocess.run([sys.executable, "-c", program], env=os.environ | clock, check=True)
