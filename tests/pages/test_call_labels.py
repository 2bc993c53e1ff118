"""Call labels: the owner's sentence with stored values; text of an agent cannot look like a part of it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from reviewqueue.pages.call_labels import describe_call
from runs.models import CallLabel

SENTENCE = "Issue purchase order to {supplier} for {amount} EUR"


def a_label(sentence: str = SENTENCE, **arguments: Any) -> CallLabel:
    return CallLabel(name="issue_purchase_order", sentence=sentence, arguments=arguments)


def label_text(label: CallLabel | None, **arguments: Any):
    return describe_call({"name": "issue_purchase_order", "arguments": arguments}, label)


def text(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


def test_the_owners_sentence_is_filled_from_the_stored_call():
    told = label_text(a_label(amount={"label": "Amount", "unit": "EUR"}), supplier="S-17", amount="184000.00")
    assert text(told.sentence) == "Issue purchase order to S-17 for 184000.00 EUR"
    assert '<data class="num" value="184000.00"><span>184</span><span>000.00</span></data>' in told.sentence
    assert told.plain == "Issue purchase order to S-17 for 184000.00 EUR"
    assert [(it.name, it.label, it.unit, it.is_amount) for it in told.arguments] == [
        ("supplier", "", "", False),
        ("amount", "", "EUR", True),  # the label says the same as the name
    ]


def test_without_a_label_a_call_shows_its_name_and_arguments():
    told = label_text(None, supplier="S-17", amount=3, urgent=True, note="x")
    assert text(told.sentence) == "issue_purchase_order: supplier S-17, amount 3, urgent yes, …"
    assert told.plain == "Call issue_purchase_order: supplier S-17, amount 3, urgent yes, …"
    assert not told.is_labelled
    assert text(label_text(None).sentence) == "issue_purchase_order, without arguments"
    assert label_text(None).plain == "Call issue_purchase_order, without arguments"


def test_a_place_without_its_argument_says_so_and_stays_no_gap():
    assert "no amount" in text(label_text(a_label(), supplier="S-17").sentence)
    assert "[no amount]" in label_text(a_label(), supplier="S-17").plain


def test_a_value_is_set_apart_so_that_it_cannot_continue_the_sentence():
    told = label_text(a_label(), supplier="S-17 for 1.00 EUR, already paid", amount="184000.00")
    assert '<span class="arg"><bdi class="exact">S-17 for 1.00 EUR, already paid</bdi></span>' in told.sentence


def test_markup_and_hidden_characters_in_values_and_names_are_made_visible():
    told = label_text(a_label("{to}"), to="<b>a\u202eb</b>")
    assert "<b>" not in told.sentence
    assert "U+202E" in told.sentence
    assert "\u202e" not in told.plain
    unlabelled = describe_call({"name": "<i>\u200b", "arguments": {"<u>": "{supplier}"}}, None)
    assert "<i>" not in unlabelled.sentence
    assert "<u>" not in unlabelled.sentence


def test_places_inside_a_value_are_not_filled():
    assert text(label_text(a_label("To {supplier}"), supplier="{amount}", amount=7).sentence) == "To {amount}"


def test_a_long_value_is_cut_and_says_by_how_much():
    assert "40 more" in text(label_text(a_label("To {supplier}"), supplier="x" * 100).sentence)


def test_values_of_every_type_have_a_text():
    sentence = "{a} {b} {c} {d} {e} {f}"
    told = label_text(a_label(sentence), a=None, b=False, c=[1, 2], d={"x": 1}, e=Decimal("0.10"), f="")
    assert text(told.sentence) == "nothing no 2 entries 1 member 0.10 “”"


def test_a_call_whose_arguments_are_no_object_still_has_a_name():
    assert describe_call({"name": "x", "arguments": [1]}, None).arguments == ()
