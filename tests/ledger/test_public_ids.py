"""Public ids: opaque, and safe wherever they are written."""

from __future__ import annotations

import re

from ledger.public_ids import ALPHABET, derive_id, new_id


def test_an_id_has_its_kind_in_front_and_no_look_alikes():
    assert re.fullmatch(r"run_[0-9a-hjkmnp-tv-z]{26}", new_id("run"))
    assert not {*"ilou"} & {*ALPHABET}


def test_ids_are_never_the_same_and_fit_their_columns():
    ids = {new_id("eff") for _ in range(10_000)}
    assert len(ids) == 10_000
    assert max(len(one) for one in ids) <= 40


def test_every_letter_is_used():
    assert {letter for _ in range(200) for letter in new_id("a").partition("_")[2]} == {*ALPHABET}


def test_a_derived_id_follows_from_its_texts_alone():
    assert derive_id("dlv", "a", "b") == derive_id("dlv", "a", "b")
    assert re.fullmatch(r"dlv_[0-9a-hjkmnp-tv-z]{26}", derive_id("dlv", "a"))
    assert (
        len(
            {
                derive_id("dlv", "a", "b"),
                derive_id("dlv", "ab"),
                derive_id("dlv", "b", "a"),
                derive_id("run", "a", "b"),
            }
        )
        == 4
    )
