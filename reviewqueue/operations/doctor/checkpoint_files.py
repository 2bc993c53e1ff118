"""Does the storage of checkpoint files take files, and does it have what the rows say?

Looks, and does not read: whether the bytes are still the right ones is seen by whoever reads a file. The one thing that a
doctor writes is an empty file that it deletes at once, since nothing else tells for every kind of storage.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.operations.file_permissions import private_paths, too_open
from runs.file_storage import is_in_storage
from runs.models import CheckpointFile
from runs.states import FileStatus

#: A storage is asked for each by itself; older files are looked at when somebody reads them.
MOST_LOOKED_FOR = 1000


def stored_files() -> Iterator[Finding]:
    """Find that the storage takes nothing, or that one of the newest kept files is missing or has another length."""
    if settings.CHECKPOINT_FILE_BYTES:
        try:
            default_storage.delete(default_storage.save(f"doctor-{secrets.token_hex(8)}", ContentFile(b"")))
        except OSError as problem:
            yield Finding(check="storage", words=f"the storage takes no checkpoint files ({problem})")
    kept = CheckpointFile.objects.filter(status=FileStatus.KEPT).select_related("run").order_by("-pk")
    for file in kept[:MOST_LOOKED_FOR]:
        try:
            if is_in_storage(file.name, size=file.size):
                continue
            problem_in_words = "is not in the storage, or not whole"
        except OSError as problem:
            problem_in_words = f"cannot be looked for ({problem})"
        words = f"the file {file.name} of {file.run.public_id}, checkpoint {file.number}, {problem_in_words}"
        yield Finding(check="storage", words=words)


def open_files() -> Iterator[Finding]:
    """Find files and folders of the product on this machine that its other users can read or write."""
    for path in too_open(private_paths()):
        mode = stat.S_IMODE(path.lstat().st_mode)
        right = 0o700 if path.is_dir() else 0o600
        words = f"other users of this machine can use {path} (mode {mode:04o}): chmod {right:04o} {path}"
        yield Finding(check="files", words=words)
