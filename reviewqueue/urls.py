"""Every address of the product, one line per part. Addresses of a part live in that part's own `urls.py`."""

from __future__ import annotations

from allauth.account import views as account
from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path, re_path

from reviewqueue.api import problems
from reviewqueue.api.urls import unknown_path, v1
from reviewqueue.operations.health import healthz, readyz
from reviewqueue.operations.metrics import metrics
from reviewqueue.pages.api_docs import api_docs, api_document
from reviewqueue.pages.problem_page import problem_page

# The admin site has no second door: who is not signed in goes through the same sign-in page, with its limits.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

# What we use of django-allauth, by the names it looks for. Not its sign-up, and not its pages to change one's address:
# decisions name people by it, and an operator vouches for it.
account_urls = [
    path("login/", account.login, name="account_login"),
    path("logout/", account.logout, name="account_logout"),
    path("password/", account.password_change, name="account_change_password"),
    path("confirm/", account.reauthenticate, name="account_reauthenticate"),
    path("inactive/", account.account_inactive, name="account_inactive"),
]

# An error on an address of the API is a problem, wherever in Django it came from; elsewhere it is a page.
handler400, handler403 = problems.bad_request, problems.permission_denied
handler404, handler500 = problems.not_found, problems.server_error

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/v1/", include(v1)),
    path("api/docs/", api_docs, name="api_docs"),
    path("api/docs/openapi.json", api_document, name="api_document"),
    re_path("^api/", unknown_path),
    path("problems/<slug:code>", problem_page, name="problem"),
    path("account/", include(account_urls)),
    path("admin/", admin.site.urls),
    path("", include("reviewqueue.pages.urls")),
]
