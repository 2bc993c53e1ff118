from __future__ import annotations

from django.apps import AppConfig


class ReviewQueueConfig(AppConfig):
    name = "reviewqueue"
    label = "reviewqueue"
    verbose_name = "Review queue"
    default_auto_field = "django.db.models.BigAutoField"
