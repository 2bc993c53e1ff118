"""Tokens: the same for the same thing, worthless for any other."""

from __future__ import annotations

import pytest
from django.test import override_settings

from ledger.tokens import make_token, read_token


def test_a_token_tells_its_number():
    assert read_token("att", make_token("att", 3, "run_1:order"), "run_1:order") == 3


def test_the_same_thing_has_the_same_token():
    assert make_token("lse", 1, "run_1") == make_token("lse", 1, "run_1")


@pytest.mark.parametrize(
    ("kind", "subject"),
    [("lse", "run_1"), ("att", "run_2"), ("att", "run_1:"), ("att", "")],
)
def test_a_token_is_good_for_one_kind_and_subject_only(kind, subject):
    assert read_token(kind, make_token("att", 1, "run_1"), subject) is None


@pytest.mark.parametrize(
    "token",
    ["", "att", "att_1", "att_1_", "att__" + "0" * 64, "att_1_" + "0" * 64, "att_-1_" + "0" * 64, "att_1_é", "\x00"],
)
def test_a_malformed_token_is_not_valid(token):
    assert read_token("att", token, "run_1") is None


def test_another_number_does_not_borrow_a_mac():
    token = make_token("att", 1, "run_1")
    assert read_token("att", token.replace("att_1_", "att_2_"), "run_1") is None
    assert read_token("att", token.replace("att_1_", "att_01_"), "run_1") is None
    assert read_token("att", token + "\n", "run_1") is None


def test_a_retired_key_still_reads_but_no_longer_signs():
    with override_settings(SECRET_KEY="the old one", SECRET_KEY_FALLBACKS=[]):
        token = make_token("lse", 1, "run_1")
    with override_settings(SECRET_KEY="the new one", SECRET_KEY_FALLBACKS=["the old one"]):
        assert read_token("lse", token, "run_1") == 1
        assert make_token("lse", 1, "run_1") != token
    with override_settings(SECRET_KEY="the new one", SECRET_KEY_FALLBACKS=[]):
        assert read_token("lse", token, "run_1") is None
