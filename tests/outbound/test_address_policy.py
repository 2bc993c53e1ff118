"""Which addresses are called: public ones, and those that the installation lists. Judged when saved and when called."""

from __future__ import annotations

import socket

import pytest

from ledger.exact_json import ABSENT
from ledger.json_pointer import is_pointer, value_at
from reviewqueue.outbound import address_policy
from reviewqueue.outbound.address_policy import (
    AddressRefused,
    check_address,
    check_base_url,
    check_fact_path,
    check_webhook_url,
    join_url,
)


@pytest.fixture(autouse=True)
def nothing_is_listed(settings):
    settings.OUTBOUND_ALLOW = []


def resolve_to(monkeypatch, *found):
    def answer(host, port, **_):
        return [(socket.AF_INET6 if ":" in it else socket.AF_INET, 1, 6, "", (it, port)) for it in found]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "0.0.0.0",  # noqa: S104  refused, not bound
            "10.0.0.7",
            "100.64.0.1",
            "100.127.255.254",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
        ),
        *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1"),
        *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::ffff:8.8.8.8", "::ffff:10.0.0.1", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1"),
        *("100::1", "2001::1", "2001:db8::1", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254"),
        *("fe80::1", "fec0::1", "ff02::1"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address):
    with pytest.raises(AddressRefused):
        check_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111"])
def test_a_public_address_is_called(address):
    check_address(address)


def test_what_the_installation_lists_is_called(settings):
    settings.OUTBOUND_ALLOW = ["10.20.0.0/16", "fd12::/16"]
    check_address("10.20.3.4")
    check_address("fd12::1")
    with pytest.raises(AddressRefused, match="OUTBOUND_ALLOW"):
        check_address("10.21.0.1")


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fe80::1"),
        *("fd00:ec2::254", "100.100.100.200"),
    ],
)
def test_no_list_opens_the_addresses_where_clouds_hand_out_credentials(address, settings):
    settings.OUTBOUND_ALLOW = ["0.0.0.0/0", "::/0"]
    with pytest.raises(AddressRefused, match="never allowed"):
        check_address(address)


@pytest.mark.parametrize(
    "base_url",
    [
        *("http://127.0.0.1", "http://[::1]/", "http://[::ffff:10.0.0.1]", "http://169.254.169.254/latest"),
        *("http://10.0.0.1:8080", "http://0.0.0.0", "http://100.64.0.1"),
        *("http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.1", "http://0x7f.0.0.1"),
        *("http://localhost.", "http://example.org.", "http://.example.org", "http://[fe80::1%25eth0]/"),
        *("http://ana@example.org", "http://ana:secret@example.org", "http://example.org:22", "http://example.org:25"),
        *("file:///etc/passwd", "gopher://example.org", "ftp://example.org", "example.org", "//example.org", ""),
        *("http://exämple.org", "http://exa mple.org", "http://example.org\\@10.0.0.1", "http://example.org\r\nX: y"),
        *("http://example.org?x", "http://example.org#x", "http://example.org:99999", "http://[::1", "http://1.2.3"),
        *("http://example.org/a/../b", "http://example.org//b", "http://example.org/%2e%2e/b"),
    ],
)
def test_a_base_address_is_refused_when_it_is_saved(base_url, monkeypatch):
    def find(host, port, **_):
        assert host.count(".") == 3 or ":" in host, "an odd spelling must not even be looked up"
        return [(0, 0, 0, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    with pytest.raises(AddressRefused):
        check_base_url(base_url)


def test_a_name_is_pinned_to_the_address_that_was_judged(monkeypatch):
    resolve_to(monkeypatch, "8.8.8.8")
    target = check_base_url("https://erp.example.org/api")
    assert (target.host, target.port, target.address) == ("erp.example.org", 443, "8.8.8.8")


def test_a_name_with_one_private_address_among_public_ones_is_refused(monkeypatch):
    resolve_to(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        check_base_url("https://erp.example.org")


def test_a_name_that_cannot_be_found_is_refused(monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(AddressRefused, match="cannot be resolved"):
        check_base_url("https://erp.example.org")


@pytest.mark.parametrize(
    "path",
    [
        *("", "pr/4711", "//evil.example/x", "/../x", "/pr/../../x", "/pr/%2e%2e/x", "/pr/%2E./x", "/pr/..%2fx"),
        *("/%2f%2fevil.example", "/pr\\..\\x", "/pr%5cx", "http://evil.example/", "/pr 4711", "/pr\n4711", "/pr#x"),
        *("/%252e%252e/x", "/pr/%00", "/ä"),
    ],
)
def test_a_path_that_could_leave_the_base_address_is_refused(path):
    with pytest.raises(AddressRefused):
        check_fact_path(path)


@pytest.mark.parametrize("path", ["/pr/4711", "/pr/4711?full=1", "/a..b/c", "/pr/%C3%A4", "/pr/4711/", "/a@b:c"])
def test_a_path_below_the_base_address_is_taken(path):
    assert join_url("http://erp.example.org/api/", path) == f"http://erp.example.org/api{path}"


def test_a_base_address_is_called_by_itself_without_a_path():
    assert address_policy.join_url("http://erp.example.org/api", "") == "http://erp.example.org/api"


RFC_6901 = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, " ": 7, "m~n": 8, "-": 9, "01": 10}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        *(("", RFC_6901), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2)),
        *(("/ ", 7), ("/m~0n", 8), ("/-", 9), ("/01", 10)),
    ],
)
def test_a_pointer_finds_what_rfc_6901_says(pointer, value):
    assert value_at(RFC_6901, pointer) == value


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/-", "/foo/00", "/foo/-1", "/foo/bar", "/nothing", "foo", "/a~2b"])
def test_a_pointer_to_nothing_finds_nothing(pointer):
    assert value_at(RFC_6901, pointer) is ABSENT
    assert is_pointer(pointer) is (pointer not in {"foo", "/a~2b"})


# --- webhooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("https://127.0.0.1/x", "https://[::1]/", "https://[::ffff:10.0.0.1]", "https://169.254.169.254/latest"),
        *("https://10.0.0.1", "https://100.64.0.1", "https://0.0.0.0", "https://2130706433", "https://0x7f000001"),
        *("https://localhost.", "https://ana:secret@example.org", "https://example.org:22", "https://exämple.org"),
        *("https://example.org/#x", "file:///etc/passwd", "gopher://example.org", "https://", "example.org/x", ""),
    ],
)
def test_a_webhook_leads_to_nothing_but_a_public_address(url, monkeypatch):
    if "localhost" not in url:
        resolve_literally(monkeypatch)
    with pytest.raises(AddressRefused):
        check_webhook_url(url)


def resolve_literally(monkeypatch):
    def answer(host, port, **_):
        if not host.replace(".", "").isdigit() and ":" not in host:
            raise OSError
        return [(socket.AF_INET6 if ":" in host else socket.AF_INET, 1, 6, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def test_a_webhook_may_carry_a_path_and_a_query(monkeypatch):
    resolve_to(monkeypatch, "8.8.8.8")
    target = check_webhook_url("https://example.org:8443/hooks/a?tenant=7")
    assert (target.host, target.port, target.address) == ("example.org", 8443, "8.8.8.8")


def test_a_webhook_without_encryption_goes_only_where_the_installation_says(monkeypatch, settings):
    resolve_to(monkeypatch, "8.8.8.8")
    with pytest.raises(AddressRefused, match="https://"):
        check_webhook_url("http://example.org/hooks")
    settings.OUTBOUND_ALLOW = ["10.20.0.0/16"]
    resolve_to(monkeypatch, "10.20.0.7")
    assert check_webhook_url("http://hooks.internal/x").scheme == "http"
