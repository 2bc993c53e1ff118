"""What a page shows in place of an empty list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EmptyState:
    """Why a list is empty. ``picture`` names a file `icons/empty-*.html`; ``url`` and ``button`` lead elsewhere."""

    picture: str
    heading: str
    text: str
    url: str = ""
    button: str = ""
