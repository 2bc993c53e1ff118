"""Outbound HTTP: an SSRF-safe client and the policy for addresses that it may call."""

from __future__ import annotations
