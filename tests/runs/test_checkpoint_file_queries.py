"""The query for files to delete uses an index, however many files are kept."""

from __future__ import annotations

import pytest
from django.db import connection

from ledger import clock
from runs import checkpoint_files
from runs.models import CheckpointFile
from runs.states import FileStatus
from tests import builders

pytestmark = pytest.mark.django_db


def test_the_look_for_unwanted_files_reads_none_that_is_kept(django_assert_num_queries):
    run = builders.a_running_run().run
    known = {
        "run": run,
        "fence": 1,
        "digest": "sha256:x",
        "size": 1,
        "status": FileStatus.KEPT,
        "created_at": clock.now(),
    }
    CheckpointFile.objects.bulk_create(CheckpointFile(number=n, name=f"checkpoints/{n}", **known) for n in range(3000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with django_assert_num_queries(2 if connection.vendor == "postgresql" else 1) as captured:
        assert not checkpoint_files.any_file_to_delete()
    with connection.cursor() as cursor:
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        cursor.execute(explain + captured.captured_queries[-1]["sql"])
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert "files_that_may_go" in plan, plan
