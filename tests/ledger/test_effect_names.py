"""Names of effects: one that looks like another name is refused, and one in a single script is accepted."""

from __future__ import annotations

import pytest

from ledger.effect_names import refuse_confusable_name
from ledger.errors import ConfusableName

DISGUISED = [
    "\u0456ssue_order",  # a Cyrillic i
    "issu\u0435_order",  # a Cyrillic e
    "issue_\u03bfrder",  # a Greek omicron
    "\u0441\u043e\u0440\u0443_order",  # Cyrillic letters that together look Latin
    "\u0441\u043e\u0440\u0443",  # nothing else in the name
    "\u0421\u041e\u0420\u0423",  # in capitals
    "\u03b9\u03bd\u03bf",  # Greek
    "\u0578\u057d\u0585",  # Armenian
    "\ua4f2\ua4e2\ua4e2",  # Lisu
    "\u13c6\u13a2",  # Cherokee
    "\u0131ssue_order",  # a dotless i
    "issue_\u0261rant",  # a script g
    "issue\ufe0f_order",  # a variation selector
    "issue\u034f_order",  # a grapheme joiner
    "issue\u3164_order",  # a filler
    "issue\u0332_order",  # an underline
    "issue\u02cdorder",  # a modifier that looks like _
    "issue\u2010order",  # another hyphen
    "issue\u2217order",  # another star
    "\u6ce8\u6587_\u0456",  # beside Chinese
]
TAKEN = [
    "issue_order",
    "auftrag erteilen: gr\u00f6\u00dfe",
    "gro\u0308sse",  # composes
    "za\u017c\u00f3\u0142\u0107",
    "\u0437\u0430\u043a\u0430\u0437\u0430\u0442\u044c",
    "\u03c0\u03b1\u03c1\u03b1\u03b3\u03b3\u03b5\u03bb\u03af\u03b1",
    "\u6ce8\u6587_create",
    "\u3054\u6ce8\u6587\u30ab\u30fc\u30c8"[:4],
    "\uc8fc\ubb38",
    "\u0622\u0631\u062f\u0631",
    "\u0911\u0930\u094d\u0921\u0930",  # Devanagari has marks of its own
    "\uff49ssue_order",  # full width: a rule matches it
    "issue\u200b_order",  # invisible characters are ignored too
]


@pytest.mark.parametrize("name", DISGUISED, ids=ascii)
def test_a_disguised_name_is_refused(name: str):
    with pytest.raises(ConfusableName):
        refuse_confusable_name(name)


@pytest.mark.parametrize("name", TAKEN, ids=ascii)
def test_a_name_in_one_script_is_accepted(name: str):
    refuse_confusable_name(name)
