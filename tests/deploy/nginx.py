"""The real nginx with `deploy/nginx.conf`, without TLS and on a free port."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import own_processes

SITE = own_processes.ROOT / "deploy" / "nginx.conf"


def command_of(folder: Path, upstreams: list[str], *, port: int, idle: str = "") -> list[str]:
    """Write the configuration of an nginx before these servers (`host:port`), and return the command that starts it.

    ``idle``: the time that replaces the site's ``keepalive_timeout`` and ``fail_timeout``. The command is empty where nginx
    is not installed.
    """
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        return []
    site = _without_tls(SITE.read_text(), port=port, upstreams=upstreams)
    if idle:
        site = re.sub(r"(keepalive_timeout |fail_timeout=)\w+", rf"\g<1>{idle}", site)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    log = f"access_log off; error_log {folder}/error.log;"
    conf = folder / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""  # its workers write to this folder
    conf.write_text(f"daemon off; {user}pid {folder}/pid; events {{}}\nhttp {{ {paths} {log}\n{site}\n}}\n")
    return [nginx, "-c", str(conf), "-e", str(folder / "error.log")]


@contextlib.contextmanager
def started_nginx(folder: Path, upstreams: list[str], *, idle: str = "") -> Iterator[str]:
    """Start nginx as ``command_of`` has it; yields its address. Skips the test where nginx is not installed."""
    port = own_processes.free_port()
    command = command_of(folder, upstreams, port=port, idle=idle)
    if not command:
        pytest.skip("nginx is not installed")
    process = subprocess.Popen(command)
    try:
        own_processes.eventually(lambda: _status(port, "/healthz") == 200, within=30, log=folder / "error.log")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _without_tls(site: str, *, port: int, upstreams: list[str]) -> str:
    site = site[: site.rindex("server {")]
    site = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", site)
    site = re.sub(r"    (server_name|ssl_\w+) [^;]*;\n", "", site)
    [line] = re.findall(r"^    server 127\.0\.0\.1:8000.*\n", site, re.M)
    return site.replace(line, "".join(line.replace("127.0.0.1:8000", server) for server in upstreams))


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
