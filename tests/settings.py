"""The project's own settings in test mode: a throw-away key, cheap password hashes, one database per test process."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

os.environ["REVIEWQUEUE_MODE"] = "test"

from reviewqueue.operations.file_permissions import make_folder, restrict
from reviewqueue.settings import *  # noqa: F403  the mode must be set before the settings are read
from reviewqueue.settings import DATABASES, VAR

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MEDIA_ROOT = VAR / f"test-files-{os.getpid()}"  # a folder in it for each test (`conftest`)
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"

restrict([VAR, *VAR.glob("demo*"), *VAR.glob("*.json")])  # left by an earlier version; the doctor would report it
# The suite calls faster than anyone may; tests of the limits set their own.
API_CALLS_PER_MINUTE = FAILED_KEYS_PER_MINUTE = PAGES_PER_MINUTE = SIGNED_OUT_PAGES_PER_MINUTE = 0

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, since SQLite in memory locks otherwise than the SQLite people use; nothing in it outlives the run.
    make_folder(VAR)
    DATABASES["default"]["TEST"] = {"NAME": str(VAR / f"test-{os.getpid()}.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL;PRAGMA synchronous=OFF;"
else:
    # Tests open and drop databases all the time: a pool would hold connections to those that are gone.
    DATABASES["default"]["OPTIONS"].pop("pool", None)
    if os.environ.get("REVIEWQUEUE_TEMPLATE"):  # a database that `tests/run.py` has migrated
        DATABASES["default"]["TEST"] = {"TEMPLATE": urlsplit(os.environ["REVIEWQUEUE_TEMPLATE"]).path[1:]}
