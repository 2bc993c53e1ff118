"""Addresses of the pages for people. Nothing here is decided by GET."""

from __future__ import annotations

from django.urls import path

from reviewqueue.pages import (
    agents,
    around,
    dead_letters,
    deciding,
    expired,
    insights,
    keeping,
    large,
    levers,
    live,
    together,
    views,
)

urlpatterns = [
    path("", views.inbox, name="inbox"),
    path("interrupts/<slug:interrupt_id>", deciding.interrupt, name="interrupt"),
    path("interrupts/<slug:interrupt_id>/standing", live.standing, name="standing"),
    path("interrupts/<slug:interrupt_id>/claim", deciding.claim, name="claim"),
    path("interrupts/<slug:interrupt_id>/release", deciding.release, name="release"),
    path("interrupts/<slug:interrupt_id>/call", large.call, name="call"),
    path("interrupts/<slug:interrupt_id>/values/<slug:part>", large.of_request, name="request-value"),
    path("interrupts/<slug:interrupt_id>/comment", around.comment, name="comment"),
    path("interrupts/<slug:interrupt_id>/assign", around.assign, name="assign"),
    path("interrupts/<slug:interrupt_id>/extend", around.extend, name="extend"),
    path("interrupts/<slug:interrupt_id>/skip", around.skip, name="skip"),
    path("interrupts/<slug:interrupt_id>/typed", keeping.save, name="save-typed"),
    path("interrupts/<slug:interrupt_id>/typed/discard", keeping.discard, name="discard-typed"),
    path("interrupts/<slug:interrupt_id>/undo", deciding.undo, name="undo"),
    path("together", together.together, name="together"),
    path("decisions/<slug:decision_id>", views.receipt, name="decision"),
    path("decisions/<slug:decision_id>/values/<slug:part>", large.of_decision, name="decision-value"),
    path("dead-letters", dead_letters.dead_letters, name="dead-letters"),
    path("dead-letters/messages/<slug:delivery_id>", dead_letters.send_again, name="send-again"),
    path("dead-letters/<slug:signal_id>", dead_letters.signal, name="dead-letter"),
    path("dead-letters/<slug:signal_id>/body", large.of_signal, name="signal-body"),
    path("dead-letters/<slug:signal_id>/<slug:verb>", dead_letters.act, name="act-on-signal"),
    path("expired", expired.expired, name="expired"),
    path("expired/<slug:interrupt_id>/restart", expired.restart, name="restart-expired"),
    path("insights", insights.insights, name="insights"),
    path("insights.csv", insights.insights_csv, name="insights-csv"),
    path("agents", agents.agents, name="agents"),
    path("agents/<slug:slug>/<slug:move>", agents.pull_switch, name="switch"),
    path("runs", views.runs, name="runs"),
    path("runs/<slug:run_id>", views.run, name="run"),
    path("runs/<slug:run_id>/result", large.of_result, name="run-result"),
    path("runs/<slug:run_id>/effects/<slug:effect_id>", large.of_effect, name="run-effect"),
    path("runs/<slug:run_id>/<slug:verb>", levers.pull, name="lever"),
]
