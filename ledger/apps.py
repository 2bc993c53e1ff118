from __future__ import annotations

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "ledger"
    label = "ledger"
    verbose_name = "Effect ledger"
    default_auto_field = "django.db.models.BigAutoField"
