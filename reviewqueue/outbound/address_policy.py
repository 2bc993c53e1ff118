"""SSRF guard: which addresses an outbound call can reach. URLs are checked when they are saved, and again at every call.

A host name is resolved once per call, and the client connects to exactly the resolved address that was checked. A second
answer of the name server (DNS rebinding) therefore changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Never allowed, not even by OUTBOUND_ALLOW: cloud machines serve their credentials at these addresses.
ALWAYS_REFUSED = [
    ipaddress.ip_network(block)
    for block in ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128")
]
#: ``is_global`` allows NAT64, 6to4 and multicast, and ``is_private`` does not know 100.64/10; hence this list.
NOT_PUBLIC = [
    ipaddress.ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
#: The allocated global unicast block; mapped, NAT64, local and multicast addresses are all outside it.
PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")

DEFAULT_PORTS = {"http": 80, "https": 443}
MIN_OTHER_PORT = 1024  # below are mail, shells and name servers
_NAME = re.compile(r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PATH = re.compile(r"/[!-\[\]-~]*")  # visible ASCII without the backslash, which some servers read as a slash


class AddressRefused(Exception):
    """The message continues a sentence that begins with the address: ``is not public (10.0.0.7)``."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The parts of a URL, and the one resolved address that the call connects to."""

    scheme: str
    host: str
    port: int
    address: str


def check_base_url(base_url: str) -> Target:
    """Resolve and check a connection's base URL. Raises ``AddressRefused``."""
    parts = _parts(base_url)
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("must not contain a user name or password; put the secret into the environment")
    if parts.query or parts.fragment or "?" in base_url or "#" in base_url:
        raise AddressRefused("must not contain a query or fragment")
    if parts.path:
        check_fact_path(parts.path)
    return _target(parts)


def check_webhook_url(url: str) -> Target:
    """Resolve and check a webhook URL: https, or http to an address in OUTBOUND_ALLOW. Raises ``AddressRefused``."""
    parts = _parts(url)
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("must not contain a user name or password; each call is signed instead")
    if parts.fragment or "#" in url:
        raise AddressRefused("must not contain a fragment")
    target = _target(parts)
    if target.scheme != "https" and not _is_listed(ipaddress.ip_address(target.address)):
        raise AddressRefused("must begin with https://")
    return target


def _target(parts: SplitResult) -> Target:
    host, port = _host(parts), _port(parts)
    return Target(scheme=parts.scheme, host=host, port=port, address=_resolve(host, port))


def check_fact_path(path: str) -> None:
    """Refuse a path that could leave its connection's base URL. Raises ``AddressRefused``."""
    if not _PATH.fullmatch(path) or "#" in path:
        raise AddressRefused("must be a path that begins with / and has no space, fragment or backslash")
    bare = path.partition("?")[0]
    decoded = unquote(unquote(bare))  # twice, because some servers decode twice
    if decoded.startswith("//") or "\\" in decoded or not decoded.isprintable():
        raise AddressRefused("must stay below the connection's base URL")
    if re.search("%2f|%5c|%25", bare, re.IGNORECASE) or ".." in decoded.split("/"):
        raise AddressRefused("must stay below the connection's base URL")


def join_url(base_url: str, path: str) -> str:
    """Return the URL of a path below the base URL. Raises ``AddressRefused``."""
    if not path:
        return base_url
    check_fact_path(path)
    return base_url.rstrip("/") + path


def check_address(address: str) -> None:
    """Refuse a resolved address that is not public, unless OUTBOUND_ALLOW contains it. Raises ``AddressRefused``."""
    found = ipaddress.ip_address(address)
    embedded = _embedded(found)
    if any(_within(place, block) for place in (found, embedded) for block in ALWAYS_REFUSED):
        raise AddressRefused(f"resolves to an address that is never allowed ({address})")
    if _is_listed(found):
        return
    refused = any(_within(found, block) for block in NOT_PUBLIC)
    if refused or (found.version == 6 and not _within(found, PUBLIC_IPV6)):
        raise AddressRefused(f"resolves to an address that is not public ({address}); OUTBOUND_ALLOW can allow it")


def _is_listed(address: IPAddress) -> bool:
    return any(_within(address, ipaddress.ip_network(block)) for block in settings.OUTBOUND_ALLOW)


def _embedded(address: IPAddress) -> IPAddress:
    """Return the IPv4 address inside a mapped, 6to4 or NAT64 address; any other address unchanged."""
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
        raise AddressRefused(
            "must not contain spaces, backslashes or non-ASCII characters (write such names as xn--...)"
        )
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        raise AddressRefused("is not a URL") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise AddressRefused("must begin with https:// or http://")
    return parts


def _host(parts: SplitResult) -> str:
    """Return the host, if it is a plain name or an address in canonical form: not 0x7f000001, not 127.1."""
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
        raise AddressRefused(f"has no valid host ({parts.netloc[:80]!r})")
    return host


def _port(parts: SplitResult) -> int:
    port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if port not in DEFAULT_PORTS.values() and port < MIN_OTHER_PORT:
        raise AddressRefused(f"must use port 80, 443 or at least {MIN_OTHER_PORT} (got {port})")
    return port


def _resolve(host: str, port: int) -> str:
    """Return the first address of the host. Every address is checked, or a name could hide one behind another."""
    if ":" in host or host.rpartition(".")[2].isdecimal():
        check_address(host)
        return host
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise AddressRefused(f"has a host that cannot be resolved ({host})") from None
    addresses = [str(entry[4][0]) for entry in found]
    if any("%" in address for address in addresses):
        raise AddressRefused("resolves to an address that is never allowed")
    for address in addresses:
        check_address(address)
    return addresses[0]
