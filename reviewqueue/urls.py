"""Every address of the product, one line per part. Addresses of a part live in that part's own `urls.py`."""

from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

# The admin site has no second door: who is not signed in goes through the same sign-in page, with its limits.
admin.autodiscover()
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

urlpatterns = [
    path("account/", include("allauth.account.urls")),
    path("admin/", admin.site.urls),
]
