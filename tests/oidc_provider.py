"""An OpenID Connect provider in a process of its own: `python -m tests.oidc_provider FILE`.

It is django-allauth's identity provider with one client. FILE has the claims of each person as JSON and is read at every
request, so that a test changes them between two sign-ins. `/enter/PERSON` signs a browser in at the provider. The first
line of output is the provider's address.
"""

from __future__ import annotations

import sys
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

CLIENT_ID, CLIENT_SECRET = "review-queue", "a secret of the client"


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        pass


def main() -> None:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    settings.configure(
        SECRET_KEY="provider",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="tests.oidc_provider_pages",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "allauth",
            "allauth.account",
            "allauth.idp.oidc",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
            "allauth.account.middleware.AccountMiddleware",
        ],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        IDP_OIDC_ADAPTER="tests.oidc_provider_pages.Adapter",
        IDP_OIDC_PRIVATE_KEY=pem,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    call_command("migrate", verbosity=0)
    from allauth.idp.oidc.models import Client

    client = Client(
        id=CLIENT_ID,
        name="Review Queue",
        scopes="openid\nprofile\nemail",
        redirect_uris="http://localhost:8000/account/sign-on/callback/",
        skip_consent=True,
    )
    client.set_secret(CLIENT_SECRET)
    client.save()
    server = make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Quiet)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
