"""Single sign-on with an OpenID Connect provider (django-allauth), in addition to the sign-in by password.

The authorization code flow with PKCE and a state that is bound to the session. The provider is configured by settings only.
"""

from __future__ import annotations

from typing import Any

from allauth.account.internal.decorators import login_not_required
from allauth.account.views import LoginView, password_change
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from requests import RequestException

from reviewqueue.operations.sign_on import SignOnRefused, admit, has_any_role, verified_address


class SignIn(LoginView):
    """The sign-in page, with a button for single sign-on if there is a provider."""

    def get_context_data(self, **named: Any) -> dict[str, Any]:
        name = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        return super().get_context_data(**named) | {"sign_on_name": name}


def change_password(request: HttpRequest) -> HttpResponse:
    """Change one's password. A person who has only single sign-on has none, and no page to set one."""
    if request.user.is_authenticated and not request.user.has_usable_password():
        messages.info(request, "You sign in with single sign-on, so you have no password here.")
        return HttpResponseRedirect(reverse("mfa_index"))
    response: HttpResponse = password_change(request)
    return response


class SignOnAdapter(DefaultSocialAccountAdapter):
    """Admit people by the provider's claims. There is no sign-up form and no page to link accounts."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Find or create the person, and apply the roles. Raises the response of a refusal."""
        try:
            _admit(sociallogin)
        except SignOnRefused as refused:
            raise ImmediateHttpResponse(_refusal(request, str(refused), status=403)) from None

    def on_authentication_error(self, request: HttpRequest, provider: Any, **named: Any) -> None:
        """Show one page for every fault of the provider, of the network, and of a callback that was not begun here."""
        sentence = _("The sign-on did not succeed. Try again; if that fails too, tell an operator.")
        raise ImmediateHttpResponse(_refusal(request, sentence, status=401))


def _admit(sociallogin: SocialLogin) -> None:
    """Set the person of the sign-in and link the provider's subject to them. Raises ``SignOnRefused``."""
    if sociallogin.state.get("process") != "login":
        raise SignOnRefused(_("This sign-on was not begun on the sign-in page."))
    account, data = sociallogin.account, sociallogin.account.extra_data
    of_token, of_userinfo = data.get("id_token") or {}, data.get("userinfo") or {}
    if not of_token or of_userinfo.get("sub", of_token.get("sub")) != of_token.get("sub"):
        raise SignOnRefused(_("Your sign-on provider names two different people."))
    claims = {**of_token, **of_userinfo}
    if of_userinfo.get("email") not in (None, of_token.get("email")):
        claims["email_verified"] = of_userinfo.get("email_verified")  # the token's is about another address
    linked = sociallogin.user if sociallogin.is_existing else None
    known = linked or _find_by_address(claims, account.provider)
    person = admit(claims, known=known, is_linked=linked is not None)
    if person.is_active and not has_any_role(person):
        raise SignOnRefused(_("None of your groups has a role here."))
    account.extra_data = {"id_token": {name: of_token.get(name) for name in ("iss", "sub")}}
    account.user = sociallogin.user = person
    account.save()


def _find_by_address(claims: dict[str, Any], provider: str) -> Any:
    """Return the person with this verified address, whom an operator added. Raises ``SignOnRefused`` if linked."""
    if not claims.get("email"):
        return None
    person = get_user_model().objects.filter(username=verified_address(claims)).first()
    if person is not None and SocialAccount.objects.filter(user=person, provider=provider).exists():
        raise SignOnRefused(_("Your e-mail address belongs to another account of your sign-on provider."))
    return person


class _Provider(OpenIDConnectOAuth2Adapter):
    """allauth's client of the provider, with one callback address, which does not depend on the request's host."""

    def get_provider(self) -> Any:
        provider = super().get_provider()
        provider.oauth2_adapter_class = _Provider
        return provider

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return f"{settings.BASE_URL}{reverse('sign_on_callback')}"


def _provider(request: HttpRequest) -> _Provider:
    if not settings.OIDC_ISSUER:
        raise Http404
    [app] = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return _Provider(request, app["provider_id"])


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_on(request: HttpRequest) -> HttpResponse:
    """Offer the sign-on; by POST begin it.

    The response to the POST is a page that leads to the provider. A redirect of a form would be subject to
    `form-action` of the Content-Security-Policy, which allows this server only.
    """
    provider = _provider(request)
    back = request.POST.get("next") or request.GET.get("next") or ""
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = ""
    context = {"name": settings.OIDC_NAME, "next": back}
    if request.method != "POST":
        return render(request, "account/sign_on.html", context)
    try:
        response = provider.get_provider().redirect(request, process="login", next_url=back or None)
    except (RequestException, ValueError, KeyError):
        return _refusal(request, _("The sign-on provider cannot be reached. Try again later."), status=503)
    if not isinstance(response, HttpResponseRedirect):
        return response
    return render(request, "account/sign_on.html", context | {"address": response.url})


@login_not_required
@never_cache
@require_safe
def sign_on_callback(request: HttpRequest) -> HttpResponse:
    """Receive the person from the provider."""
    view = OAuth2CallbackView.adapter_view(_provider(request))
    try:
        response: HttpResponse = view(request)
    except (ValueError, KeyError, TypeError, AttributeError):
        # What the provider answered has another form than the protocol says.
        return _refusal(request, _("The sign-on provider gave an answer that cannot be read."), status=502)
    return response


def _refusal(request: HttpRequest, sentence: str, *, status: int) -> HttpResponse:
    return render(request, "account/sign_on_refused.html", {"sentence": sentence}, status=status)
