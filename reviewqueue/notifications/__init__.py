"""Notifications: who is notified about which event, by mail and chat, with preferences, digests and retries."""

from __future__ import annotations
