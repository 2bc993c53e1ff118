"""Passkeys in a real browser with Chromium's virtual authenticator: added, used beside the password and alone."""

from __future__ import annotations

import re

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from playwright.sync_api import CDPSession, Page, expect

from runs.models import Decision, Event
from tests import builders
from tests.browser.test_accessibility import findings
from tests.pages import desk
from tests.second_factors import PASSWORD

DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def a_person(name: str) -> User:
    address = f"{name}@example.org"
    return User.objects.create_user(username=address, email=address, password=PASSWORD)


def plug_in(page: Page) -> tuple[CDPSession, str]:
    """Give the browser a device with a fingerprint reader."""
    devices = page.context.new_cdp_session(page)
    devices.send("WebAuthn.enable")
    return devices, devices.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]


def enter_password(page: Page, person: User) -> None:
    page.get_by_label("E-mail").fill(person.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_passkey(page: Page, person: User, *, alone: bool) -> None:
    page.goto("/account/login/?next=/account/passkeys/add/")
    enter_password(page, person)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    page.get_by_label("Name").fill(f"Key of {person.username}")
    page.get_by_label("Sign in with this passkey alone").set_checked(alone)
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_text("These codes are shown only now.")).to_be_visible()


def sign_out(page: Page) -> None:
    page.goto("/account/logout/")
    page.get_by_role("main").get_by_role("button", name="Sign out").click()


def test_a_passkey_is_a_second_factor_and_signs_in_alone(page: Page):
    ana = a_person("ana")
    devices, device = plug_in(page)
    add_passkey(page, ana, alone=True)

    sign_out(page)
    page.goto("/account/login/?next=/account/sessions/")
    enter_password(page, ana)
    expect(page.get_by_role("heading", name="Use your second factor")).to_be_visible()
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()

    page.goto("/account/second-factor/")
    page.get_by_role("link", name="Rename Key of ana@example.org").click()
    expect(page.get_by_role("heading", name="Confirm with")).to_be_visible()
    page.goto("/account/passkeys/confirm/?next=/account/second-factor/")
    page.get_by_role("button", name="Use a passkey").click()
    page.get_by_role("link", name="Rename Key of ana@example.org").click()
    page.get_by_label("Name").fill("Laptop")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_text("Laptop")).to_be_visible()

    sign_out(page)
    page.goto("/account/login/?next=/account/sessions/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()

    sign_out(page)
    User.objects.update(is_active=False)
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/account/inactive/")

    page.goto("/account/login/")
    devices.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": device})
    devices.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE | {"isUserVerified": False}})
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("The passkey was not used.")).to_be_visible()


def test_a_passkey_beside_the_password_does_not_sign_in_alone(page: Page):
    plug_in(page)
    add_passkey(page, a_person("ana"), alone=True)
    sign_out(page)
    passkey = Authenticator.objects.get(type="webauthn")
    passkey.data["passwordless"] = False  # many devices offer it for sign-in, whatever the person chose
    passkey.save()
    page.goto("/account/login/?next=/account/sessions/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("This passkey is a second factor.")).to_be_visible()
    page.goto("/account/sessions/")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()


def test_the_passkey_of_another_person_is_refused(page: Page):
    ana, ben = a_person("ana"), a_person("ben")
    devices, device = plug_in(page)
    add_passkey(page, ana, alone=False)
    sign_out(page)
    devices.send("WebAuthn.clearCredentials", {"authenticatorId": device})
    add_passkey(page, ben, alone=True)
    sign_out(page)
    enter_password(page, ana)
    expect(page.get_by_role("heading", name="Use your second factor")).to_be_visible()
    # The page asks for Ana's passkey. A changed page asks for any, and Ben's device signs Ana's challenge.
    page.evaluate(
        """async () => {
            const options = JSON.parse(document.getElementById("js_data").textContent).request_options;
            options.publicKey.allowCredentials = [];
            const form = document.querySelector("form[data-passkey]");
            form.elements.credential.value = JSON.stringify(await webauthnJSON.get(options));
            form.submit();
        }"""
    )
    expect(page.get_by_role("alert").first).to_contain_text("not a current code")
    page.goto("/account/sessions/")
    expect(page.get_by_role("heading", name="Use your second factor")).to_be_visible()
    assert Authenticator.objects.filter(type="webauthn").count() == 2


def test_a_decision_is_confirmed_with_a_passkey(page: Page):
    lena = desk.lena()
    lena.set_password(PASSWORD)
    lena.save()
    builders.change_policies(second_factor="always")
    interrupt = desk.a_refund(5)
    plug_in(page)
    add_passkey(page, lena, alone=False)
    page.goto(f"/interrupts/{interrupt.public_id}")
    page.get_by_role("radio", name=re.compile("^Reject")).check()
    page.get_by_label("Reason, sent to the agent").fill("Too dear")
    page.get_by_role("button", name="Reject this call").click()
    expect(page.get_by_role("heading", name="Confirm with your second factor")).to_be_visible()
    assert not findings(page)
    # A passkey page that was opened meanwhile replaces the challenge, so that its answer does not count here.
    other = page.context.new_page()
    other.goto("/account/passkeys/confirm/")
    page.get_by_role("button", name="Confirm with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("asked for another decision")
    assert not Decision.objects.exists()
    page.get_by_role("button", name="Confirm with a passkey").click()
    expect(page.get_by_text("You rejected:")).to_be_visible()
    assert Event.objects.get(type="interrupt.answered").refs["second_factor"] == "webauthn"
