"""Template tag libraries."""

from __future__ import annotations
