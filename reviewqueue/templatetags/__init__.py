"""Template tags: `words` (text and values from outside), `times`, `signs` (icons, tones, people)."""

from __future__ import annotations
