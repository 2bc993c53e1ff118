"""Pages for people: server-rendered HTML, upgraded by htmx, whole without it."""

from __future__ import annotations
