"""Webhooks: endpoints, the outbox, deliveries with their retries, and the sender."""

from __future__ import annotations
