"""An error report names what was sent and holds no value of it, by the settings of production."""

from __future__ import annotations

import sys

from django.conf import settings
from django.test import RequestFactory
from django.utils.module_loading import import_string

MARKER = "Zq7marker0secret0Zq7"


def a_report(*, html: bool) -> str:
    """Return the report of a fault in a view that has everything in its local variables."""
    request = RequestFactory().post(
        f"/interrupts/int_1?token={MARKER}",
        {"message-reject": MARKER, "password": MARKER, "csrfmiddlewaretoken": MARKER},
        headers={
            "Authorization": f"Bearer {MARKER}",
            "Run-Lease": MARKER,
            "X-CSRFToken": MARKER,
            "Referer": f"/?code={MARKER}",
            "User-Agent": "agent/1.0",
        },
    )
    request.COOKIES |= {"sessionid": MARKER, "other": MARKER}
    request.resolver_match = None
    try:
        posted, lease = request.POST.copy(), request.headers["Run-Lease"]
        raise RuntimeError(f"planted after {len(posted) + len(lease)} characters")
    except RuntimeError:
        reporter = import_string(settings.DEFAULT_EXCEPTION_REPORTER)(request, *sys.exc_info(), is_email=True)
    text: str = reporter.get_traceback_html() if html else reporter.get_traceback_text()
    return text


def test_a_report_holds_names_and_no_value_that_was_sent():
    for html in (False, True):
        text = a_report(html=html)
        assert MARKER not in text
        for name in ("planted after", "HTTP_RUN_LEASE", "password", "message-reject", "sessionid", "agent/1.0"):
            assert name in text, (html, name)


def test_a_report_holds_no_setting():
    for html in (False, True):
        text = a_report(html=html)
        assert settings.SECRET_KEY not in text
        assert str(settings.DATABASES["default"]["NAME"]) not in text


def test_no_setting_of_its_own_holds_the_address_of_the_database():
    """An address with its password would be printed by `diffsettings`, whose filter goes by names."""
    from reviewqueue import settings as product

    assert not [
        name for name in vars(product) if "DATABASE" in name.upper() and isinstance(getattr(product, name), str)
    ]
