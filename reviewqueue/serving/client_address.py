"""The client's address for rate limits: that of the connection, or the one that trusted proxies report."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import Any

from django.conf import settings


def client_network(environ: Mapping[str, Any]) -> str:
    """Return the client's IPv4 address, or the /64 network of its IPv6 address: one customer owns a whole /64.

    ``TRUSTED_PROXY_COUNT`` is the number of entries at the end of ``X-Forwarded-For`` that our own proxies wrote. A header
    with fewer entries did not pass them, so the connection's own address counts.
    """
    text = str(environ.get("REMOTE_ADDR") or "")
    if settings.TRUSTED_PROXY_COUNT:
        forwarded = str(environ.get("HTTP_X_FORWARDED_FOR") or "").split(",")
        if len(forwarded) >= settings.TRUSTED_PROXY_COUNT:
            text = forwarded[-settings.TRUSTED_PROXY_COUNT].strip() or text
    return _network_of(text[:64])


@functools.lru_cache(maxsize=4096)
def _network_of(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
