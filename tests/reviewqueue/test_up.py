"""`manage.py up` and `web` refuse to start with one sentence, before they start any process."""

from __future__ import annotations

import socket

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from reviewqueue.management.commands import up
from tests import own_processes


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_port_in_use_is_refused(command: str, settings):
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as listening:  # as the server itself listens
        settings.HOST, settings.PORT = listening.getsockname()
        with pytest.raises(CommandError, match=f"Port {settings.PORT} is in use"):
            call_command(command)


def test_an_address_of_another_machine_is_refused(settings):
    settings.HOST, settings.PORT = "192.0.2.1", 8000
    with pytest.raises(CommandError, match=r"Cannot listen on 192\.0\.2\.1:8000"):
        call_command("web")


def test_an_unusable_database_is_reported_in_one_sentence(monkeypatch, settings):
    settings.HOST, settings.PORT = "127.0.0.1", own_processes.free_port()

    def migrate(*arguments: str, **options: object) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(up, "call_command", migrate)
    with pytest.raises(CommandError, match=r"The database cannot be used \(.*\): unable to open"):
        call_command("up")
