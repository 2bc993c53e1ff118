"""Which addresses an outbound call may reach: judged when a connection is saved, and again at every call.

Called by ``add_connection`` (``check_base_url``), by the API for the path of a fact (``check_fact_path``) and for a webhook
(``check_webhook_url``), and by ``outbound``, which connects to the very address that was judged here. Names are resolved
once a call, so that a second answer of the name server cannot lead elsewhere. Nothing is sent from here.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Never, whatever OUTBOUND_ALLOW says: cloud machines hand out their credentials at these.
NEVER = [
    ipaddress.ip_network(block)
    for block in ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128")
]
#: ``is_global`` would let NAT64, 6to4 and multicast through, and ``is_private`` does not know 100.64/10: our own list.
NOT_PUBLIC = [
    ipaddress.ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
#: Of IPv6 only what is handed out to the public; mapped, NAT64, local and multicast addresses all lie outside.
PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")

DEFAULT_PORTS = {"http": 80, "https": 443}
LOWEST_OTHER_PORT = 1024  # below it live mail, shells and name servers
_NAME = re.compile(r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PATH = re.compile(r"/[!-\[\]-~]*")  # visible ASCII without the backslash, which some servers read as a slash


class AddressRefused(Exception):
    """Says in words why an address is not called: ``names a private address (10.0.0.7)``."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A place to call: what the URL says, and the one resolved address that the call connects to."""

    scheme: str
    host: str
    port: int
    address: str


def check_base_url(base_url: str) -> Target:
    """Return where a connection's base address leads now. Raises ``AddressRefused``."""
    parts = _parts(base_url)
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("holds a name or a password; a secret goes into the environment")
    if parts.query or parts.fragment or "?" in base_url or "#" in base_url:
        raise AddressRefused("holds a query or a fragment")
    if parts.path:
        check_fact_path(parts.path)
    return _target(parts)


def check_webhook_url(url: str) -> Target:
    """Return where a webhook's address leads now: https, or http to an address that OUTBOUND_ALLOW lists.

    Raises ``AddressRefused``.
    """
    parts = _parts(url)
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("holds a name or a password; our signature tells who calls")
    if parts.fragment or "#" in url:
        raise AddressRefused("holds a fragment")
    target = _target(parts)
    if target.scheme != "https" and not _is_listed(ipaddress.ip_address(target.address)):
        raise AddressRefused("has to begin with https://")
    return target


def _target(parts: SplitResult) -> Target:
    host, port = _host(parts), _port(parts)
    return Target(scheme=parts.scheme, host=host, port=port, address=_resolve(host, port))


def check_fact_path(path: str) -> None:
    """Refuse a path that could lead out of its connection's base address. Raises ``AddressRefused``."""
    if not _PATH.fullmatch(path) or "#" in path:
        raise AddressRefused("has to be a path that begins with / and holds no blank, fragment or backslash")
    bare = path.partition("?")[0]
    decoded = unquote(unquote(bare))  # twice: some servers decode once more
    if decoded.startswith("//") or "\\" in decoded or not decoded.isprintable():
        raise AddressRefused("leads away from the connection's base address")
    if re.search("%2f|%5c|%25", bare, re.IGNORECASE) or ".." in decoded.split("/"):
        raise AddressRefused("leads away from the connection's base address")


def url_of(base_url: str, path: str) -> str:
    """Return the address of a fact: its path below the base address. Raises ``AddressRefused``."""
    if not path:
        return base_url
    check_fact_path(path)
    return base_url.rstrip("/") + path


def judge(address: str) -> None:
    """Refuse a resolved address that is not public, unless OUTBOUND_ALLOW lists it. Raises ``AddressRefused``."""
    found = ipaddress.ip_address(address)
    inside = _carried(found)
    if any(_within(place, block) for place in (found, inside) for block in NEVER):
        raise AddressRefused(f"leads to an address that is never called ({address})")
    if _is_listed(found):
        return
    refused = any(_within(found, block) for block in NOT_PUBLIC)
    if refused or (found.version == 6 and not _within(found, PUBLIC_IPV6)):
        raise AddressRefused(f"leads to an address that is not public ({address}); OUTBOUND_ALLOW can list it")


def _is_listed(address: IPAddress) -> bool:
    return any(_within(address, ipaddress.ip_network(block)) for block in settings.OUTBOUND_ALLOW)


def _carried(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that a mapped, 6to4 or NAT64 one carries; any other itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    well_known_nat64 = ipaddress.ip_network("64:ff9b::/96")
    if address in well_known_nat64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _within(address: IPAddress, block: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return address.version == block.version and address in block


def _parts(base_url: str) -> SplitResult:
    if not base_url.isascii() or not base_url.isprintable() or any(sign in base_url for sign in " \\"):
        raise AddressRefused("holds blanks, backslashes or characters beyond ASCII (write xn-- for such names)")
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        raise AddressRefused("is not an address") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise AddressRefused("has to begin with https:// or http://")
    return parts


def _host(parts: SplitResult) -> str:
    """Return the host, if it is a plain name or an address in its usual spelling: not 0x7f000001, not 127.1."""
    host = parts.hostname or ""
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            host = ""
    elif not _NAME.fullmatch(host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            host = ""
    if not host or "%" in host:
        raise AddressRefused(f"has no host that could be called ({parts.netloc[:80]!r})")
    return host


def _port(parts: SplitResult) -> int:
    port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if port not in DEFAULT_PORTS.values() and port < LOWEST_OTHER_PORT:
        raise AddressRefused(f"names the port {port}; 80, 443 and those from {LOWEST_OTHER_PORT} on are called")
    return port


def _resolve(host: str, port: int) -> str:
    """Return the first address of the host; every one it has is judged, or a name could hide one behind another."""
    if ":" in host or host.rpartition(".")[2].isdecimal():
        judge(host)
        return host
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise AddressRefused(f"names a host that cannot be found ({host})") from None
    addresses = [str(entry[4][0]) for entry in found]
    if any("%" in address for address in addresses):
        raise AddressRefused("leads to an address that is never called")
    for address in addresses:
        judge(address)
    return addresses[0]
