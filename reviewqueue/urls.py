"""The URL configuration. Pages and API have a `urls.py` of their own."""

from __future__ import annotations

from allauth.account import views as account
from allauth.account.decorators import secure_admin_login
from allauth.mfa.base import views as second_factor_base
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.webauthn import views as passkeys
from django.contrib import admin
from django.urls import include, path, re_path

from reviewqueue.api import problems
from reviewqueue.api.urls import unknown_path, v1
from reviewqueue.operations.health import healthz, readyz
from reviewqueue.operations.metrics import metrics
from reviewqueue.pages import second_factor
from reviewqueue.pages.account_sessions import own_sessions
from reviewqueue.pages.api_docs import api_docs
from reviewqueue.pages.problem_page import problem_page
from reviewqueue.pages.sign_on import SignIn, change_password, sign_on, sign_on_callback

# The admin site uses the same sign-in page as the inbox, with its rate limits.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

# The views of django-allauth that we use, under the names it expects. Not sign-up, and not the change of an e-mail
# address: decisions name people by their address, and an operator has verified it.
account_urls = [
    path("login/", SignIn.as_view(), name="account_login"),
    path("logout/", account.logout, name="account_logout"),
    path("password/", change_password, name="account_change_password"),
    path("confirm/", account.reauthenticate, name="account_reauthenticate"),
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("password/reset/", account.password_reset, name="account_reset_password"),
    path("password/reset/done/", account.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        account.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "password/reset/key/done/",
        account.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    path("sign-on/", sign_on, name="sign_on"),
    path("sign-on/callback/", sign_on_callback, name="sign_on_callback"),
    path("sessions/", own_sessions, name="account_sessions"),
    path("second-factor/", second_factor.SecondFactors.as_view(), name="mfa_index"),
    path("second-factor/use/", second_factor_base.authenticate, name="mfa_authenticate"),
    path("second-factor/confirm/", second_factor_base.reauthenticate, name="mfa_reauthenticate"),
    path("second-factor/app/", second_factor.ActivateApp.as_view(), name="mfa_activate_totp"),
    path("second-factor/app/remove/", second_factor.DeactivateApp.as_view(), name="mfa_deactivate_totp"),
    path(
        "second-factor/codes/",
        second_factor.explain_unreadable(recovery_codes.view_recovery_codes),
        name="mfa_view_recovery_codes",
    ),
    path(
        "second-factor/codes/new/",
        second_factor.explain_unreadable(recovery_codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("passkeys/", second_factor.SecondFactors.as_view(), name="mfa_list_webauthn"),  # allauth returns here
    path("passkeys/add/", second_factor.AddPasskey.as_view(), name="mfa_add_webauthn"),
    path("passkeys/confirm/", second_factor.ConfirmByPasskey.as_view(), name="mfa_reauthenticate_webauthn"),
    path("passkeys/sign-in/", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("passkeys/<int:pk>/remove/", second_factor.RemovePasskey.as_view(), name="mfa_remove_webauthn"),
    path("passkeys/<int:pk>/rename/", passkeys.edit_webauthn, name="mfa_edit_webauthn"),
]

# An error on a path of the API is a problem (RFC 9457), wherever in Django it occurred; elsewhere it is a page.
handler400, handler403 = problems.bad_request, problems.permission_denied
handler404, handler500 = problems.not_found, problems.server_error

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/v1/", include(v1)),
    path("api/docs/", api_docs, name="api_docs"),
    re_path("^api/", unknown_path),
    path("problems/<slug:code>", problem_page, name="problem"),
    path("account/", include(account_urls)),
    path("admin/", admin.site.urls),
    path("", include("reviewqueue.pages.urls")),
]
