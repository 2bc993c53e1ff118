"""Numbers as text, grouped as the reader's language does: "12,345" in English, "12.345" in German."""

from __future__ import annotations

from django.utils.formats import number_format


def number_label(number: int) -> str:
    return number_format(number, use_l10n=True, force_grouping=True)
