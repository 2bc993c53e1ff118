"""Storage of checkpoint files and attachments in a bucket of S3 or a compatible server (`FILES_URL`).

It reports every fault of the server as ``OSError``, as a folder does, so that a caller gets a refusal that it can repeat.
Needs the extra `reviewqueue[s3]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files import File
from s3transfer.exceptions import RetriesExceededError
from storages.backends.s3 import S3Storage

SECONDS_TO_CONNECT, SECONDS_TO_ANSWER, ATTEMPTS = 5, 10, 3
#: Of a download whose bytes stop coming.
DOWNLOAD_ATTEMPTS = 2
#: A larger file is an unnamed file in the folder that TMPDIR names.
MAX_IN_MEMORY = 512 * 1024


class ObjectStorage(S3Storage):
    """A file is durable when the server has confirmed it. The server's own digests are not relied on."""

    def __init__(self, *, addressing_style: str | None = None, **settings: Any) -> None:
        config = Config(
            s3={"addressing_style": addressing_style},
            connect_timeout=SECONDS_TO_CONNECT,
            read_timeout=SECONDS_TO_ANSWER,
            retries={"max_attempts": ATTEMPTS, "mode": "standard"},
            # Compatible servers do not know the checksums that newer clients add.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        super().__init__(
            client_config=config,
            transfer_config=TransferConfig(num_download_attempts=DOWNLOAD_ATTEMPTS, use_threads=False),
            max_memory_size=MAX_IN_MEMORY,
            default_acl=None,
            gzip=False,
            file_overwrite=False,
            **settings,
        )

    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        with _faults_as_os_errors():
            opened: File[bytes] = super()._open(name, mode)
            try:
                opened.open()  # downloads it, so that a later read cannot fail
            except BaseException:
                opened.close()
                raise
            return opened

    def _save(self, name: str, content: File[Any]) -> str:
        return str(_call(super()._save, name, content))

    def delete(self, name: str) -> None:
        _call(super().delete, name)

    def exists(self, name: str) -> bool:
        return bool(_call(super().exists, name))

    def size(self, name: str) -> int:
        return int(_call(super().size, name))


def _call(method: Callable[..., Any], *args: Any) -> Any:
    with _faults_as_os_errors():
        return method(*args)


@contextmanager
def _faults_as_os_errors() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error, RetriesExceededError) as fault:
        raise OSError(f"the object storage did not answer: {fault}") from fault
