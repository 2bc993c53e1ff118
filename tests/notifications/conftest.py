"""Mail is configured; Django keeps what would be sent in ``mail.outbox``."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def mail_server(settings):
    settings.EMAIL_HOST = "mail.example.org"
    settings.BASE_URL = "https://review.example.org"
