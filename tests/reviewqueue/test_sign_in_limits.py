"""Wrong passwords: an attacker is stopped, also with many addresses, and cannot lock the account's owner out."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from reviewqueue.pages.account_adapter import KNOWN_DEVICE

pytestmark = pytest.mark.django_db

PASSWORD = "a long enough one 7"
ANA, BO = "ana@example.org", "bo@example.org"
LIMITED = "Too many failed login attempts"
ATTACKER, OFFICE = "192.0.2.66", "198.51.100.7"


@pytest.fixture(autouse=True)
def fresh_limits():
    cache.clear()


@pytest.fixture(autouse=True)
def two_people() -> None:
    add_people()


def add_people() -> None:
    for address in (ANA, BO):
        if not User.objects.filter(username=address).exists():
            User.objects.create_user(username=address, email=address, password=PASSWORD)


def sign_in(address: str, *, password: str = PASSWORD, login: str = ANA, client: Client | None = None, **headers: str):
    client = client or Client()
    form = {"login": login, "password": password}
    answer = client.post("/account/login/", form, REMOTE_ADDR=address, headers=headers)
    client.post("/account/logout/")
    return answer


def fail(times: int, address: str, **more) -> str:
    """Try a wrong password; returns the last answer."""
    return [sign_in(address, password="not this one", **more).text for _ in range(times)][-1]


def is_in(answer) -> bool:
    return answer.status_code == 302 and answer.url == settings.LOGIN_REDIRECT_URL


def test_a_guesser_is_stopped_and_the_right_person_signs_in_from_elsewhere():
    add_people()
    assert LIMITED in fail(20, ATTACKER)
    assert is_in(sign_in(OFFICE))
    assert LIMITED in sign_in(ATTACKER).text, "also with the right password, for a while"


def test_guesses_for_one_person_lock_out_no_other_at_the_same_address():
    assert LIMITED in fail(6, OFFICE)
    assert is_in(sign_in(OFFICE, login=BO))


def guess_for_many(address: str) -> None:
    for number in range(10):
        fail(1, address, login=f"nobody-{number}@example.org")


def test_guesses_for_many_people_lock_out_no_one_else_at_the_same_address():
    guess_for_many(OFFICE)
    assert is_in(sign_in(OFFICE))
    assert is_in(sign_in(OFFICE, login=BO))


def test_an_address_that_guesses_for_many_people_tries_each_once():
    guess_for_many(ATTACKER)
    assert LIMITED not in fail(1, ATTACKER)
    assert LIMITED in fail(1, ATTACKER)
    assert is_in(sign_in(OFFICE))


def test_an_ipv6_network_counts_as_one_address():
    for number in range(5):
        assert LIMITED not in fail(1, f"2001:db8:1:2::{number + 1}")
    assert LIMITED in fail(1, "2001:db8:1:2:ffff::9")
    assert is_in(sign_in("2001:db8:1:3::1"))


def test_what_one_address_may_try_never_fills_the_count_of_the_person():
    """Refused tries are not counted on: else a single address could lock out every new device."""
    assert LIMITED in fail(110, ATTACKER)
    assert is_in(sign_in(OFFICE))


class TestManyAddresses:
    @pytest.fixture
    def known(self) -> Client:
        client = Client()
        assert is_in(sign_in(OFFICE, client=client))
        return client

    @pytest.fixture
    def guessed(self, known) -> None:
        for number in range(25):
            fail(4, f"203.0.113.{number}")

    def test_a_guess_from_many_addresses_is_slowed(self, guessed):
        assert LIMITED in fail(1, "203.0.113.200")
        assert LIMITED in sign_in("203.0.113.201").text

    def test_a_browser_that_has_signed_in_before_still_does(self, known, guessed):
        assert is_in(sign_in("203.0.113.202", client=known))

    def test_it_does_at_the_address_of_the_guesser_too(self, known):
        fail(30, OFFICE)
        assert LIMITED in sign_in(OFFICE).text
        assert is_in(sign_in(OFFICE, client=known))

    def test_it_has_a_limit_of_its_own(self, known):
        assert LIMITED not in fail(10, OFFICE, client=known)
        assert LIMITED in fail(1, OFFICE, client=known)

    def test_it_is_known_for_its_own_person_alone(self, known):
        known.post("/account/login/", {"login": BO, "password": PASSWORD})
        known.post("/account/logout/")
        fail(5, ATTACKER, client=known)
        assert LIMITED in sign_in(ATTACKER, client=known).text

    def test_a_cookie_that_this_server_did_not_sign_counts_for_nothing(self, known, guessed):
        known.cookies[KNOWN_DEVICE] = known.cookies[KNOWN_DEVICE].value[:-3] + "abc"
        assert LIMITED in sign_in("203.0.113.203", client=known).text

    def test_the_cookie_is_for_the_server_alone_and_holds_no_address(self, known):
        cookie = known.cookies[KNOWN_DEVICE]
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
        assert "ana" not in cookie.value


class TestBehindAProxy:
    @pytest.fixture(autouse=True)
    def proxy(self, settings):
        settings.TRUSTED_PROXY_COUNT = 1

    def test_the_client_is_the_address_that_the_proxy_saw(self):
        for spoofed in range(6):
            fail(1, "10.0.0.1", **{"X-Forwarded-For": f"203.0.113.{spoofed}, {ATTACKER}"})
        assert LIMITED in sign_in("10.0.0.1", **{"X-Forwarded-For": f"203.0.113.9, {ATTACKER}"}).text
        assert is_in(sign_in("10.0.0.1", **{"X-Forwarded-For": OFFICE}))


def test_without_a_proxy_a_header_is_no_address():
    for spoofed in range(6):
        fail(1, ATTACKER, **{"X-Forwarded-For": f"203.0.113.{spoofed}"})
    assert LIMITED in sign_in(ATTACKER, **{"X-Forwarded-For": OFFICE}).text


def test_ipv4_clients_of_a_server_that_listens_on_ipv6_have_counts_of_their_own(two_people):
    fail(20, "::ffff:203.0.113.9")
    assert is_in(sign_in("::ffff:198.51.100.1"))


def test_fewer_proxies_than_expected_end_no_sign_in(two_people, settings):
    settings.TRUSTED_PROXY_COUNT = 2
    assert is_in(sign_in("198.51.100.1", **{"X-Forwarded-For": "203.0.113.9"}))
