"""Checks of the checkpoint storage: it accepts new files, it has the files that the rows name, and they are private.

Compares sizes only: a worker that downloads a file compares its digest. The check writes one empty file and deletes it,
because no other test works for every kind of storage.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.operations.file_permissions import accessible_to_others, private_paths
from runs.file_storage import is_file_stored
from runs.models import CheckpointFile
from runs.states import FileStatus

#: Each file costs one call of the storage, so only the newest are checked.
MAX_FILES_CHECKED = 1000


def stored_files() -> Iterator[Finding]:
    """Find a storage that accepts no file, and missing or incomplete files among the newest."""
    if settings.CHECKPOINT_FILE_BYTES:
        try:
            default_storage.delete(default_storage.save(f"doctor-{secrets.token_hex(8)}", ContentFile(b"")))
        except OSError as problem:
            yield Finding(check="storage", message=f"The storage accepts no checkpoint files ({problem}).")
    kept = CheckpointFile.objects.filter(status=FileStatus.KEPT).select_related("run").order_by("-pk")
    for file in kept[:MAX_FILES_CHECKED]:
        try:
            if is_file_stored(file.name, size=file.size):
                continue
            fault = "is missing from the storage, or incomplete. Restore it from a backup."
        except OSError as problem:
            fault = f"cannot be checked ({problem})."
        message = f"File {file.name} of checkpoint {file.number} of run {file.run.public_id} {fault}"
        yield Finding(check="storage", message=message)


def open_files() -> Iterator[Finding]:
    """Find files and folders of the product that other users of this machine can read or write."""
    for path in accessible_to_others(private_paths()):
        mode = stat.S_IMODE(path.lstat().st_mode)
        right = 0o700 if path.is_dir() else 0o600
        message = f"Other users of this machine can access {path} (mode {mode:04o}). Run: chmod {right:04o} {path}"
        yield Finding(check="files", message=message)
