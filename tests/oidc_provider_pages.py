"""The pages of the OpenID Connect provider of the tests, and the claims that it states."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from django.contrib.auth import get_user_model, login
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


class Adapter(DefaultOIDCAdapter):
    def get_claims(self, purpose: Any, user: Any, client: Any, scopes: Any, **named: Any) -> dict[str, Any]:
        claims = json.loads(Path(sys.argv[1]).read_text())[user.username]
        of_userinfo = claims.pop("userinfo", {})
        return {"sub": str(user.pk), **claims, **(of_userinfo if purpose == "userinfo" else {})}


def enter(request: HttpRequest, person: str) -> HttpResponse:
    login(request, get_user_model().objects.get_or_create(username=person)[0])
    return HttpResponse("in")


urlpatterns = [
    path("enter/<str:person>", enter),
    path("accounts/", include("allauth.account.urls")),
    path("", include("allauth.idp.urls")),
]
