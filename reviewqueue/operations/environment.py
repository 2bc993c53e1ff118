"""Readers of environment variables for `settings`: text, numbers, booleans, network blocks, database URL, secret key.

A value that cannot be read raises ``ImproperlyConfigured`` with a sentence that says what is allowed.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from reviewqueue.operations.file_permissions import make_folder
from reviewqueue.operations.installation import PROGRAM

MODES = ("production", "demo", "test")
ROLES_OF_GROUPS = ("reviewer", "lead", "auditor", "owner", "operator")
PROCESSES = ("web", "worker", "command")
IDLE_IN_TRANSACTION_SECONDS = 30
REPLICA_STATEMENT_SECONDS = 30
IDLE_TIMEOUT = "idle_in_transaction_session_timeout"
_POSTGRESQL = ("postgresql", "postgres")
_OF_A_BUCKET = {"endpoint_url", "region_name", "addressing_style"}
_OF_SEVERAL_HOSTS = {"target_session_attrs": "read-write", "connect_timeout": "3", "tcp_user_timeout": "10000"}


def text(name: str, default: str = "") -> str:
    """Return the variable, else the content of the file that ``NAME_FILE`` names (a mounted secret), else ``default``."""
    given = os.environ.get(name, "").strip()
    file = os.environ.get(f"{name}_FILE", "").strip()
    if given or not file:
        return given or default
    try:
        return Path(file).read_text().strip() or default
    except (OSError, UnicodeDecodeError) as fault:
        raise ImproperlyConfigured(f"{name}_FILE names a file that cannot be read: {fault}.") from None


def number(name: str, default: int, *, min_value: int = 0, max_value: int = 1_000_000) -> int:
    given = text(name, str(default))
    if not given.isdecimal() or len(given) > 9 or not min_value <= int(given) <= max_value:
        bounds = f"from {min_value} to {max_value}" if min_value else f"up to {max_value}"
        raise ImproperlyConfigured(f"{name} must be a whole number {bounds}, not {given!r}.")
    return int(given)


def boolean(name: str, *, default: bool = False) -> bool:
    given = text(name, "1" if default else "0").lower()
    if given not in ("0", "1", "false", "true", "no", "yes", "off", "on"):
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {given!r}.")
    return given in ("1", "true", "yes", "on")


def comma_separated(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def network_blocks(name: str, default: str) -> list[str]:
    """Return comma-separated network blocks such as 10.20.0.0/16."""
    blocks = comma_separated(name, default)
    for block in blocks:
        try:
            ipaddress.ip_network(block)
        except ValueError as problem:
            raise ImproperlyConfigured(f"{name} must list network blocks such as 10.20.0.0/16: {problem}.") from None
    return blocks


def choice(name: str, allowed: tuple[str, ...], default: str) -> str:
    given = text(name, default)
    if given not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {given!r}.")
    return given


def some_of(name: str, allowed: tuple[str, ...], default: str) -> list[str]:
    """Return comma-separated values. Each must be one of ``allowed``."""
    given = comma_separated(name, default)
    unknown = [part for part in given if part not in allowed]
    if unknown:
        raise ImproperlyConfigured(f"{name} must list values of {', '.join(allowed)}, not {unknown[0]!r}.")
    return given


def base_url(default: str) -> str:
    """Return the URL at which people and agents reach the product, without a trailing slash."""
    given = text("BASE_URL", default).rstrip("/")
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        raise ImproperlyConfigured(f"BASE_URL must look like https://review.example.org, not {given!r}.")
    return given


def web_address(name: str) -> str:
    """Return an https URL, or an http one of this machine; empty if the variable is not set."""
    given = text(name).rstrip("/")
    parts = urlsplit(given)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if given and not (parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_local))):
        raise ImproperlyConfigured(f"{name} must look like https://login.example.org, not {given!r}.")
    return given


def group_roles(name: str) -> list[tuple[str, str, str]]:
    """Return the entries of `GROUP=ROLE:NAME; ...` as group, role, and the name of the queue or agent.

    A group can contain `=`, as the names of a directory do.
    """
    entries = []
    for entry in filter(None, (part.strip() for part in text(name).split(";"))):
        group, _, given = entry.rpartition("=")
        role, _, of = (part.strip() for part in given.partition(":"))
        if not group.strip() or role not in ROLES_OF_GROUPS or bool(of) == (role == "operator"):
            raise ImproperlyConfigured(
                f"{name} must look like buyers=reviewer:purchasing; staff=operator, and {entry!r} does not. "
                f"Roles: {', '.join(ROLES_OF_GROUPS)}."
            )
        entries.append((group.strip(), role, of))
    return entries


def sign_on_provider(issuer: str, *, client: str, scopes: list[str]) -> dict[str, Any]:
    """Return allauth's `SOCIALACCOUNT_PROVIDERS` with the one provider; without an issuer there is none."""
    if not issuer:
        return {}
    secret = text("OIDC_CLIENT_SECRET")
    if not client or not secret:
        raise ImproperlyConfigured("OIDC_ISSUER needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.")
    app = {
        # Of stored links. Another issuer is another provider, because its subjects are other people.
        "provider_id": f"oidc-{hashlib.sha256(issuer.encode()).hexdigest()[:12]}",
        "name": "OpenID Connect",
        "client_id": client,
        "secret": secret,
        "settings": {"server_url": issuer},
    }
    return {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "SCOPE": scopes, "APPS": [app]}}


def sentry_handler(name: str) -> dict[str, dict[str, Any]]:
    """Return the logging handler that reports errors to Sentry; none without a DSN."""
    dsn = text(name)
    if not dsn:
        return {}
    if not (urlsplit(dsn).scheme in ("http", "https") and urlsplit(dsn).username):
        raise ImproperlyConfigured(f"{name} must look like https://key@sentry.example.org/1.")
    if find_spec("sentry_sdk") is None:
        raise ImproperlyConfigured(f"{name} needs Sentry's library. Install it with: pip install 'reviewqueue[sentry]'")
    sentry = {"()": "reviewqueue.operations.sentry.SentryHandler", "level": "ERROR", "filters": ["request_id"]}
    return {"sentry": sentry | {"dsn": dsn}}


def cache_server(name: str) -> str:
    """Return the URL of a Redis or Valkey server, as redis-py reads it; empty if the variable is not set."""
    given = text(name)
    address = re.sub(r"^valkey(?=s?://)", "redis", given)  # its protocol is the same
    if given and not (address.startswith(("redis://", "rediss://")) and urlsplit(address).hostname):
        raise ImproperlyConfigured(f"{name} must look like redis://:password@cache.example.org:6379/0.")
    if given and find_spec("redis") is None:
        raise ImproperlyConfigured(f"{name} needs a client. Install it with: pip install 'reviewqueue[cache]'")
    return address


def file_storage(name: str) -> dict[str, Any]:
    """Return Django's storage of files: the bucket of `s3://bucket/prefix?endpoint_url=...`, else the folder `FILES_DIR`."""
    given = text(name)
    if not given:
        # Checkpoint files can contain personal data: readable by this user only.
        private = {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
        return {"BACKEND": "reviewqueue.operations.storage.DurableStorage", "OPTIONS": private}
    parts = urlsplit(given)
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "s3" or not parts.hostname or not options.keys() <= _OF_A_BUCKET:
        allowed = ", ".join(sorted(_OF_A_BUCKET))
        raise ImproperlyConfigured(f"{name} must look like s3://bucket/prefix?region_name=...; it can have {allowed}.")
    if find_spec("storages") is None or find_spec("boto3") is None:
        raise ImproperlyConfigured(f"{name} needs a client. Install it with: pip install 'reviewqueue[s3]'")
    own = {"bucket_name": parts.hostname, "location": unquote(parts.path).strip("/")}
    return {"BACKEND": "reviewqueue.operations.object_storage.ObjectStorage", "OPTIONS": own | options}


def secret_key(*, mode: str, var: Path) -> str:
    """Return SECRET_KEY. Without it the demo stores its own key in `var/`, and tests use a new one each time."""
    given = text("SECRET_KEY")
    if given:
        return given
    if mode == "test":
        return secrets.token_urlsafe(50)
    if mode == "demo":
        return _stored_key(var / "demo-secret-key")
    raise ImproperlyConfigured(
        "SECRET_KEY is not set. Make one with:  python3 -c 'import secrets; print(secrets.token_urlsafe(50))'\n"
        f"and keep it, because it signs sessions and queued tasks. To try the product first: {PROGRAM} demo"
    )


def _stored_key(path: Path) -> str:
    make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()  # another process was first: both must use the same key
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(50))
    return path.read_text().strip()


def default_database(var: Path, name: str) -> str:
    """Return the URL of an SQLite database in `var/`, and create that folder."""
    make_folder(var)
    return f"sqlite:///{var / name}"


def databases(address: str, *, direct: str, replica: str, process: str, pool_size: int) -> dict[str, dict[str, Any]]:
    """Return Django's ``DATABASES``. ``direct``: a URL past the pooler of ``address``, for the connection that listens.

    ``replica``: the URL of a standby for lists and figures.
    """
    found = _primary(address, direct=direct, process=process, pool_size=pool_size)
    if replica and not all(url.partition(":")[0] in _POSTGRESQL for url in (address, replica)):
        raise ImproperlyConfigured("REPLICA_DATABASE_URL is for PostgreSQL: both URLs must begin with postgresql://.")
    if replica:
        # Without a pool, in which a page would wait for a standby that is away.
        found["replica"] = database(replica, process="command", pool_size=0)
        own = {"target_session_attrs": "any", "connect_timeout": "2", "tcp_user_timeout": "5000"}
        own["application_name"] = "reviewqueue lists"
        asked = _members(replica)
        options = found["replica"]["OPTIONS"]
        options |= {name: asked.get(name, value) for name, value in own.items()}
        # First, so that the URL's own options prevail. A list that is cancelled is read from the primary.
        options["options"] = f"-c statement_timeout={REPLICA_STATEMENT_SECONDS}s {options['options']}"
    return found


def _primary(address: str, *, direct: str, process: str, pool_size: int) -> dict[str, dict[str, Any]]:
    if not direct:
        return {"default": database(address, process=process, pool_size=pool_size)}
    if not all(url.partition(":")[0] in _POSTGRESQL for url in (address, direct)):
        raise ImproperlyConfigured("DATABASE_DIRECT_URL is for PostgreSQL: both URLs must begin with postgresql://.")
    return {
        "default": database(address, process=process, pool_size=pool_size, pooled=True),
        "direct": database(direct, process="command", pool_size=1),
    }


def database(address: str, *, process: str, pool_size: int, pooled: bool = False) -> dict[str, Any]:
    """Return Django's settings of `sqlite:///var/x.sqlite3`, `postgresql://user@host/name` or `postgresql:///name?host=/socket`.

    ``pooled``: the URL leads to a pooler that gives each transaction another connection of the server.
    """
    scheme = address.partition(":")[0]
    if scheme == "sqlite":
        return _sqlite(urlsplit(address).path)
    if scheme in _POSTGRESQL:
        return _postgresql(address, process=process, pool_size=pool_size, pooled=pooled)
    raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:/// or postgresql://.")


def _sqlite(path: str) -> dict[str, Any]:
    """Three slashes start a relative path, four an absolute one, as in SQLAlchemy and dj-database-url."""
    name = unquote(path).removeprefix("/")
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no file: sqlite:///var/reviewqueue.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            # IMMEDIATE takes the write lock at BEGIN, so a transaction that reads first cannot fail at its write.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # FULL: data that was answered with 200 survives a power cut.
            "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;",
        },
    }


def _postgresql(address: str, *, process: str, pool_size: int, pooled: bool) -> dict[str, Any]:
    options = _members(address)
    named = {name: options.pop(name, "") for name in ("dbname", "user", "password", "host", "port")}
    if "," in named["host"]:
        # A standby refuses writes, and a machine that vanished answers nothing: without these a promotion is not noticed.
        options = _OF_SEVERAL_HOSTS | options
    if pooled:
        # Nothing of a session lasts: no statement that was prepared, no cursor, no startup option. The role has the
        # setting that matters (docs/operations.md), and the doctor checks it.
        if "options" in options:
            raise ImproperlyConfigured(
                "DATABASE_URL cannot have options if DATABASE_DIRECT_URL is set: set the role's."
            )
        options["prepare_threshold"] = None
    else:
        # `ledger.prepared_queries` prepares its statements with one generic plan. Django itself sends literal values.
        options["prepare_threshold"] = 0
        # A process that is frozen in a transaction must not keep its locks: the product's own last for milliseconds.
        session = f"-c plan_cache_mode=force_generic_plan -c {IDLE_TIMEOUT}={IDLE_IN_TRANSACTION_SECONDS}s"
        options["options"] = f"{options.get('options', '')} {session}".strip()
    settings: dict[str, Any] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": named["dbname"],
        "USER": named["user"],
        "PASSWORD": named["password"],
        "HOST": named["host"],
        "PORT": named["port"],
        "OPTIONS": options,
    }
    if pooled:
        settings["DISABLE_SERVER_SIDE_CURSORS"] = True
    set_process(settings, process, pool_size=pool_size)
    return settings


def _members(address: str) -> dict[str, Any]:
    """Return the members of a URL as PostgreSQL's client reads them, with several hosts too."""
    from psycopg import ProgrammingError  # not needed on SQLite
    from psycopg.conninfo import conninfo_to_dict

    try:
        return dict(conninfo_to_dict(address))
    except ProgrammingError as fault:  # its text can quote the password
        unknown = re.search(r'invalid URI query parameter: "(\w+)"', str(fault))
        wrong = f"has the unknown parameter {unknown[1]}" if unknown else "cannot be read"
        raise ImproperlyConfigured(
            f"A PostgreSQL URL {wrong}: it must look like postgresql://user:password@host/name. "
            "Special characters of the password must be percent-encoded."
        ) from None


def set_process(settings: dict[str, Any], process: str, *, pool_size: int) -> None:
    """Change the settings of a database to those of this kind of process, before it opens a connection."""
    if "postgresql" not in settings["ENGINE"]:
        return
    options = settings["OPTIONS"]
    if options.get("application_name", "reviewqueue ").startswith("reviewqueue "):
        options["application_name"] = f"reviewqueue {process}"
    options.pop("pool", None)
    if process == "web":
        # A long poll returns its connection to the pool while it waits; opening a new one costs 7 ms each time.
        options["pool"] = {"min_size": 1, "max_size": pool_size, "timeout": 10}
        settings |= {name: 0 for name in ("CONN_MAX_AGE", "CONN_HEALTH_CHECKS") if name in settings}
    else:
        # django-q2 forks, and a pool does not survive a fork.
        settings |= {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
