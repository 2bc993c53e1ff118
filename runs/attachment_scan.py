"""An optional check of attached files by a program of the operator, for example a virus scanner."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import tempfile
import threading

from django.conf import settings

from ledger.errors import Busy
from ledger.transactions import assert_no_transaction
from runs.errors import AttachmentRefused
from runs.file_storage import PIECE, SpooledFile

logger = logging.getLogger(__name__)

SECONDS = 60
SECONDS_TO_WAIT = 5
#: All that the program gets of the environment: no secret, and not the database's address.
ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LANG")
#: How many files one web process scans at once.
_places = threading.BoundedSemaphore(2)
_INFECTED = 1  # the exit status of `clamscan` and `clamdscan` for a file with a finding; 0 is a clean one


def scan_file(sent: SpooledFile) -> None:
    """Let the program of `ATTACHMENT_SCAN` read the file on its standard input.

    Raises ``AttachmentRefused`` if it reports a finding (status 1), and ``Busy`` if it fails (any other status but 0) or if
    others are being scanned.
    """
    if not settings.ATTACHMENT_SCAN:
        return
    assert_no_transaction()
    if not _places.acquire(timeout=SECONDS_TO_WAIT):
        raise Busy("Other files are being scanned, so nothing was stored. Attach the file again.")
    try:
        status, output = _run(sent)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        logger.error("The scan of an attachment failed: %s", error)
        status, output = None, ""
    finally:
        _places.release()
    if status == _INFECTED:
        logger.warning("The scan refused the attachment %s: %s", sent.digest, output)
        raise AttachmentRefused("The scan of this installation found something harmful in the file.")
    if status != 0:
        if status is not None:
            logger.error("The scan of an attachment ended with status %s: %s", status, output)
        raise Busy("The file could not be scanned, so nothing was stored. Attach the file again.")


def _run(sent: SpooledFile) -> tuple[int, str]:
    with tempfile.TemporaryFile() as copy:  # a program needs a file descriptor; a small upload has none
        sent.file.seek(0)
        while piece := sent.file.read(PIECE):
            copy.write(piece)
        copy.seek(0)
        done = subprocess.run(
            shlex.split(settings.ATTACHMENT_SCAN),
            stdin=copy,
            capture_output=True,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            timeout=SECONDS,
            check=False,
        )
    return done.returncode, (done.stdout + done.stderr)[-300:].decode(errors="replace").strip()


def find_scan_fault() -> str:
    """Return why the command of `ATTACHMENT_SCAN` cannot run; empty if it can, or if there is none."""
    if not settings.ATTACHMENT_SCAN:
        return ""
    try:
        [program, *_] = shlex.split(settings.ATTACHMENT_SCAN)
    except ValueError as error:
        return f"cannot be parsed as a command: {error}"
    return "" if shutil.which(program) else f"names a program that is not found: {program}"
