"""Operations for migrations that run while the code before them serves requests (docs/development.md)."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations.operations import AddIndex


class AddIndexWithoutLock(AddIndexConcurrently):
    """Add an index. On PostgreSQL writes continue meanwhile, so the migration must have ``atomic = False``."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        adds = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else AddIndex
        adds.database_forwards(self, app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        removes = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else AddIndex
        removes.database_backwards(self, app_label, schema_editor, from_state, to_state)
