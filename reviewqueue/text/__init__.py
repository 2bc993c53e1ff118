"""Untrusted text and JSON values as safe HTML, look-alike and hidden characters, and times as text."""

from __future__ import annotations
