"""Settings load, migrations match the models, and a stranger gets the sign-in page."""

from __future__ import annotations

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_migrations_match_the_models():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_a_stranger_gets_the_sign_in_page(client):
    assert client.get("/account/login/").status_code == 200
    assert client.get("/admin/").headers["Location"].startswith("/admin/login/")
