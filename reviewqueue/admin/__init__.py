"""The owners' desk: Django's admin site, read-only but for effects whose outcome is in question and for holds.

For staff: operators see everything, owners what belongs to their groups, everybody else nothing. History is never added to,
changed or deleted here; what an owner says goes through `runs.use_cases.reconcile_outcomes`, like every other move. No rule
lives here. Each module registers the desks of its subject.
"""

from __future__ import annotations

from django.contrib import admin

from reviewqueue.admin import configuration, effects, holds, runs, webhooks

__all__ = ["configuration", "effects", "holds", "runs", "webhooks"]

admin.site.site_header = "Review Queue: owners’ desk"
admin.site.site_title = "Review Queue"
admin.site.index_title = "What you own"
