"""How people sign in: by e-mail address and password, and nobody signs up.

django-allauth calls the adapter here; operators add people with `manage.py add_person`.
"""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAccountAdapter(DefaultAccountAdapter):
    """People are added by an operator; a stranger can't make an account."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_ajax(self, request: HttpRequest) -> bool:
        """Return False always: the JSON answer of a form holds its values, passwords too, and no page asks for it."""
        return False
