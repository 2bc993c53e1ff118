"""Signing in and out as a person does it, by keyboard and by sight."""

from __future__ import annotations

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

PASSWORD = "a long enough one 7"


def test_a_person_signs_in_changes_the_password_and_signs_out(page: Page):
    User.objects.create_user(username="ana@example.org", email="ana@example.org", password=PASSWORD)
    page.goto("/account/password/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    page.get_by_label("E-mail").fill("ana@example.org")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not correct")
    expect(page.get_by_label("E-mail")).to_have_value("ana@example.org")

    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Change password")).to_be_visible()

    page.goto("/account/logout/")
    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("/account/password/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
