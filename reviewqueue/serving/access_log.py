"""Access log: one line for each request, with its route pattern instead of its path, which can contain a secret."""

from __future__ import annotations

import logging
from typing import Any

from ledger.log_context import LogContext
from reviewqueue.serving.http_metrics import count_request, method_of, route_of

log = logging.getLogger("reviewqueue.access")

#: Probes and scrapes come every few seconds: they are logged only when they fail.
_PROBES = ("healthz", "readyz", "metrics")
_CLIENT_ERROR = 400


def record_request(
    environ: dict[str, Any], context: LogContext, *, client: str, status: int, size: int, seconds: float
) -> None:
    """Count the request for the metrics and write its line. ``seconds`` include those in which a long poll waited."""
    count_request(environ, status=status, seconds=max(seconds - context.waited, 0.0))
    route = route_of(environ)
    if not log.isEnabledFor(logging.INFO) or (route in _PROBES and status < _CLIENT_ERROR):
        return
    if context.has_several_runs:
        context.ids = {name: value for name, value in context.ids.items() if name not in ("run", "interrupt")}
    who = next((f"{kind} {context.ids[kind]}" for kind in ("person", "agent") if kind in context.ids), "no sign-in")
    members = {
        "method": method_of(environ),
        "route": route,
        "status": status,
        "ms": round(1000 * seconds, 1),
        "waited_ms": round(1000 * context.waited, 1),
        "bytes": size,
        "client": client,
    }
    log.info(
        "%(method)s %(route)s %(status)s, %(ms)s ms, %(bytes)s bytes, %(who)s, %(client)s",
        members | {"who": who},
        extra=members,
    )
