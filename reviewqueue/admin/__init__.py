"""The reconciliation admin: Django's admin site, read-only except for resolving unknown outcomes and holds.

Operators see everything, owners what belongs to their groups, other people nothing. Resolutions go through
`runs.use_cases`; no rule is implemented here. Each module registers the models of its subject.
"""

from __future__ import annotations

import allauth.account.admin
import allauth.mfa.admin
import allauth.socialaccount.admin
import allauth.usersessions.admin  # noqa: F401  the last of four that register models
import django_q.admin
from django.contrib import admin

from reviewqueue.admin import configuration, effects, holds, notifications, people, runs, webhooks

__all__ = ["configuration", "effects", "holds", "notifications", "people", "runs", "webhooks"]

# A changed or deleted schedule of django-q2 would stop sweeps, and an edited task could call any function. Its admin
# module is imported first, because it registers the models.
for model in [it for it in admin.site._registry if it._meta.app_label == django_q.admin.Schedule._meta.app_label]:
    admin.site.unregister(model)

# Also imported first. Second factors, sessions and addresses are changed by the pages of an account and of people only,
# which record it.
for model in [it for it in admin.site._registry if it.__module__.startswith("allauth.")]:
    admin.site.unregister(model)

admin.site.site_header = "Review Queue: Reconciliation"
admin.site.site_title = "Review Queue"
admin.site.index_title = "Reconciliation"
