"""`manage.py up` and `web` say in a sentence why they cannot start, before anything is started."""

from __future__ import annotations

import socket

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from reviewqueue.management.commands import up
from tests import own_processes


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_port_that_somebody_listens_on_is_refused(command: str, settings):
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as listening:  # as the server itself listens
        settings.HOST, settings.PORT = listening.getsockname()
        with pytest.raises(CommandError, match=f"The port {settings.PORT} is taken"):
            call_command(command)


def test_an_address_of_another_machine_is_refused(settings):
    settings.HOST, settings.PORT = "192.0.2.1", 8000
    with pytest.raises(CommandError, match=r"Nothing can listen on 192\.0\.2\.1:8000"):
        call_command("web")


def test_a_database_that_is_not_there_is_told_in_a_sentence(monkeypatch, settings):
    settings.HOST, settings.PORT = "127.0.0.1", own_processes.free_port()

    def migrate(*words: str, **options: object) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(up, "call_command", migrate)
    with pytest.raises(CommandError, match=r"The database cannot be used \(.*\): unable to open"):
        call_command("up")
