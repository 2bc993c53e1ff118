"""Reads the environment for `settings`: text, numbers, switches, addresses, the database's address, the secret key.

Only `settings` calls it. What cannot be read is refused with a sentence that says how to put it right; nothing is
guessed.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from reviewqueue.operations.file_permissions import make_folder

MODES = ("production", "demo", "test")
PROCESSES = ("web", "worker", "command")
SECONDS_IDLE = 30  # between two statements of one transaction


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int, *, least: int = 0, most: int = 1_000_000) -> int:
    given = text(name, str(default))
    if not given.isdecimal() or len(given) > 9 or not least <= int(given) <= most:
        bounds = f"from {least} to {most}" if least else f"up to {most}"
        raise ImproperlyConfigured(f"{name} must be a whole number {bounds}, not {given!r}.")
    return int(given)


def switch(name: str, default: bool = False) -> bool:
    given = text(name, "1" if default else "0").lower()
    if given not in ("0", "1", "false", "true", "no", "yes", "off", "on"):
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {given!r}.")
    return given in ("1", "true", "yes", "on")


def words(name: str) -> list[str]:
    return [word.strip() for word in text(name).split(",") if word.strip()]


def blocks(name: str, default: str) -> list[str]:
    """Blocks of addresses such as 10.20.0.0/16, with commas between them."""
    given = [word.strip() for word in text(name, default).split(",") if word.strip()]
    for block in given:
        try:
            ipaddress.ip_network(block)
        except ValueError as problem:
            raise ImproperlyConfigured(f"{name} must list blocks such as 10.20.0.0/16: {problem}.") from None
    return given


def one_of(name: str, allowed: tuple[str, ...], default: str) -> str:
    given = text(name, default)
    if given not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {given!r}.")
    return given


def base_url(default: str) -> str:
    """The address people and agents reach us at, without a slash at its end."""
    given = text("BASE_URL", default).rstrip("/")
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        raise ImproperlyConfigured(f"BASE_URL must look like https://review.example.org, not {given!r}.")
    return given


def secret_key(*, mode: str, var: Path) -> str:
    """The given key. Without one only demo and test start: the demo keeps its own in `var/`, a test throws it away."""
    given = text("SECRET_KEY")
    if given:
        return given
    if mode == "test":
        return secrets.token_urlsafe(50)
    if mode == "demo":
        return _kept_key(var / "demo-secret-key")
    raise ImproperlyConfigured(
        "SECRET_KEY is not set. Make one with:  python3 -c 'import secrets; print(secrets.token_urlsafe(50))'\n"
        "and keep it: sessions and tasks that wait are signed with it. To look around first: python3 manage.py demo"
    )


def _kept_key(path: Path) -> str:
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()  # a process beside us was first: both must use the same one
    with os.fdopen(descriptor, "w") as kept:
        kept.write(secrets.token_urlsafe(50))
    return path.read_text().strip()


def own_database(var: Path, name: str) -> str:
    """The address of the database that is used where none is given, in `var/`, which the first start makes."""
    make_folder(var)
    return f"sqlite:///{var / name}"


def database(address: str, *, process: str, pool_size: int) -> dict[str, Any]:
    """Django's settings for `sqlite:///var/x.sqlite3`, `postgresql://user@host/name` or `postgresql:///name?host=/socket`."""
    parts = urlsplit(address)
    if parts.scheme == "sqlite":
        return _sqlite(parts.path)
    if parts.scheme in ("postgresql", "postgres"):
        return _postgresql(address, process=process, pool_size=pool_size)
    raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:/// or postgresql://.")


def _sqlite(path: str) -> dict[str, Any]:
    """Three slashes: a path from here; four: from the root, as SQLAlchemy and dj-database-url have it."""
    name = unquote(path).removeprefix("/")
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no file: sqlite:///var/reviewqueue.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            # IMMEDIATE takes the write lock at BEGIN: a transaction that reads first is not refused at its write.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # FULL: what we answered 200 to is still there after a power cut.
            "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(address: str, *, process: str, pool_size: int) -> dict[str, Any]:
    parts = urlsplit(address)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    # `ledger.prepared_queries` has its statements prepared, with one plan for good. Django itself still sends literal
    # values.
    options["prepare_threshold"] = 0
    # A process that was frozen in a transaction must not keep its locks: ours last for milliseconds.
    ours = f"-c plan_cache_mode=force_generic_plan -c idle_in_transaction_session_timeout={SECONDS_IDLE}s"
    options["options"] = f"{options.get('options', '')} {ours}".strip()
    settings: dict[str, Any] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path).removeprefix("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or options.pop("port", "") or ""),
        "OPTIONS": options,
    }
    if process == "web":
        # A long poll gives its connection back for nothing; closing one costs 7 ms a wake.
        options["pool"] = {"min_size": 1, "max_size": pool_size, "timeout": 10}
    else:
        # django-q2 forks: a pool would not survive it.
        settings |= {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
    return settings
