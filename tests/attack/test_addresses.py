"""Hostile addresses of the admin site, and hostile cookies: refused before any database looks for them."""

from __future__ import annotations

import pytest
from django.test import Client

from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

PLACES = ["/admin/runs/run/?q=%00", "/admin/runs/run/?agent__id__exact=%00", "/admin/runs/run/%00/change/"]


@pytest.mark.parametrize("place", PLACES)
def test_a_nul_in_an_address_is_a_bad_request(place):
    """C082: PostgreSQL cannot look for a text with a NUL, so these broke there."""
    client = desk.signed_in(builders.a_person("ops@example.org", "operators"))
    assert client.get(place).status_code == 400


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_nul_in_a_cookie_is_a_bad_request(method):
    client = Client()
    client.cookies.load(r'sessionid="\000\000\000\000\000\000\000\000"')
    assert getattr(client, method)("/").status_code == 400
