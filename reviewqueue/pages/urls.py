"""The URLs of the pages. A GET never changes anything."""

from __future__ import annotations

from django.urls import path

from reviewqueue.pages import (
    agent_detail,
    agents,
    audit_log,
    dead_letters,
    expired,
    live_updates,
    notifications,
    outcomes,
    people,
    queues,
    read_views,
)
from reviewqueue.pages.inbox import bulk_decisions
from reviewqueue.pages.insights import insights_views
from reviewqueue.pages.interrupt import action_views, decision_views, value_browser
from reviewqueue.pages.runs import run_actions

urlpatterns = [
    path("", read_views.inbox, name="inbox"),
    path("interrupts/<slug:interrupt_id>", decision_views.interrupt, name="interrupt"),
    path("interrupts/<slug:interrupt_id>/next", read_views.following, name="next"),
    path("interrupts/<slug:interrupt_id>/standing", live_updates.request_state, name="request_state"),
    path("interrupts/<slug:interrupt_id>/claim", action_views.claim, name="claim"),
    path("interrupts/<slug:interrupt_id>/release", action_views.release, name="release"),
    path("interrupts/<slug:interrupt_id>/call", value_browser.call, name="call"),
    path("interrupts/<slug:interrupt_id>/values/<slug:part>", value_browser.of_request, name="request-value"),
    path("interrupts/<slug:interrupt_id>/comment", action_views.comment, name="comment"),
    path("interrupts/<slug:interrupt_id>/assign", action_views.assign, name="assign"),
    path("interrupts/<slug:interrupt_id>/extend", action_views.extend, name="extend"),
    path("interrupts/<slug:interrupt_id>/skip", action_views.skip, name="skip"),
    path("interrupts/<slug:interrupt_id>/typed", decision_views.save_draft, name="save-draft"),
    path("interrupts/<slug:interrupt_id>/typed/discard", decision_views.discard_draft, name="discard-draft"),
    path("interrupts/<slug:interrupt_id>/undo", action_views.undo, name="undo"),
    path("together", bulk_decisions.together, name="together"),
    path("together/undo", bulk_decisions.undo_together, name="undo-together"),
    path("decisions/<slug:decision_id>", read_views.receipt, name="decision"),
    path("decisions/<slug:decision_id>/values/<slug:part>", value_browser.of_decision, name="decision-value"),
    path("dead-letters", dead_letters.dead_letters, name="dead-letters"),
    path("dead-letters/messages/<slug:delivery_id>", dead_letters.send_again, name="send-again"),
    path("dead-letters/notifications/<slug:message_id>", dead_letters.resend_notification, name="resend-notification"),
    path("dead-letters/<slug:signal_id>", dead_letters.signal, name="dead-letter"),
    path("dead-letters/<slug:signal_id>/body", value_browser.of_signal, name="signal-body"),
    path("dead-letters/<slug:signal_id>/<slug:verb>", dead_letters.perform_action, name="signal-action"),
    path("expired", expired.expired, name="expired"),
    path("expired/<slug:interrupt_id>/restart", expired.restart, name="restart-expired"),
    path("insights", insights_views.insights, name="insights"),
    path("insights.csv", insights_views.insights_csv, name="insights-csv"),
    path("notifications", notifications.notifications, name="notifications"),
    path("people", people.people, name="people"),
    path("people/add", people.add_person, name="add-person"),
    path("people/<slug:move>", people.change_person, name="change-person"),
    path("outcomes", outcomes.outcomes, name="outcomes"),
    path("outcomes/effects/<slug:effect_id>", outcomes.resolve, name="resolve-outcome"),
    path("outcomes/holds/<slug:run_id>", outcomes.lift, name="lift-hold"),
    path("queues", queues.queues, name="queues"),
    path("queues/add", queues.add_queue, name="add-queue"),
    path("queues/<slug:slug>/<slug:verb>", queues.change_queue, name="change-queue"),
    path("policies/edit", queues.edit_policy, name="edit-policy"),
    path("audit", audit_log.audit_page, name="audit-log"),
    path("audit.csv", audit_log.audit_csv, name="audit-csv"),
    path("audit.json", audit_log.audit_json, name="audit-json"),
    path("agents", agents.agents, name="agents"),
    path("agents/add", agent_detail.add_agent, name="add-agent"),
    path("agents/<slug:slug>", agent_detail.agent, name="agent"),
    path("agents/<slug:slug>/<slug:move>", agents.use_kill_switch, name="kill-switch"),
    path("agents/<slug:slug>/<slug:subject>/<slug:verb>", agent_detail.change, name="change-agent"),
    path("runs", read_views.runs, name="runs"),
    path("runs/<slug:run_id>", read_views.run, name="run"),
    path("runs/<slug:run_id>/result", value_browser.of_result, name="run-result"),
    path("runs/<slug:run_id>/effects/<slug:effect_id>", value_browser.of_effect, name="run-effect"),
    path("runs/<slug:run_id>/<slug:verb>", run_actions.perform_action, name="run-action"),
]
