"""An optional check of attached files by a program of the operator, for example a virus scanner."""

from __future__ import annotations

import logging
import shlex
import subprocess
import tempfile

from django.conf import settings

from ledger.errors import Busy
from ledger.transactions import assert_no_transaction
from runs.errors import AttachmentRefused
from runs.file_storage import PIECE, SpooledFile

logger = logging.getLogger(__name__)

SECONDS = 60
_INFECTED = 1  # the exit status of `clamscan` and `clamdscan` for a file with a finding; 0 is a clean one


def scan_file(sent: SpooledFile) -> None:
    """Let the program of `ATTACHMENT_SCAN` read the file on its standard input.

    Raises ``AttachmentRefused`` if it reports a finding (status 1), and ``Busy`` if it fails (any other status but 0).
    """
    if not settings.ATTACHMENT_SCAN:
        return
    assert_no_transaction()
    try:
        status, output = _run(sent)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        logger.error("The scan of an attachment failed: %s", error)
        status, output = None, ""
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
            shlex.split(settings.ATTACHMENT_SCAN), stdin=copy, capture_output=True, timeout=SECONDS, check=False
        )
    return done.returncode, (done.stdout + done.stderr)[-300:].decode(errors="replace").strip()
