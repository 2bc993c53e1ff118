"""The reconciliation admin: Django's admin site, read-only except for resolving unknown outcomes and holds.

Operators see everything, owners what belongs to their groups, other people nothing. Resolutions go through
`runs.use_cases`; no rule is implemented here. Each module registers the models of its subject.
"""

from __future__ import annotations

from django.contrib import admin

from reviewqueue.admin import configuration, effects, holds, notifications, runs, webhooks

__all__ = ["configuration", "effects", "holds", "notifications", "runs", "webhooks"]

admin.site.site_header = "Review Queue: Reconciliation"
admin.site.site_title = "Review Queue"
admin.site.index_title = "Reconciliation"
