"""The tables of runs, by subject. Models contain no rules."""

from __future__ import annotations

from runs.models.agents import Agent, CallLabel, Connection, EffectRule, Halt
from runs.models.attachments import Attachment
from runs.models.configuration import ConfigurationHead, ConfigurationRecord
from runs.models.continuations import Continuation, HandBack, Hold
from runs.models.facts import Fact, FactCheck, FactKind, FactStatus
from runs.models.interrupts import Assignee, Comment, Decision, Interrupt, Permit, Revision, Schema
from runs.models.planted_requests import PlantedRequest
from runs.models.policies import Policy, Queue
from runs.models.run import Checkpoint, CheckpointFile, Outcome, Progress, Run
from runs.models.signals import Signal
from runs.models.standing_rules import StandingRule, StandingRuleUse
from runs.models.step_results import StepResult
from runs.models.timeline import Event, Feed

__all__ = [
    "Agent",
    "Assignee",
    "Attachment",
    "CallLabel",
    "Checkpoint",
    "CheckpointFile",
    "Comment",
    "ConfigurationHead",
    "ConfigurationRecord",
    "Connection",
    "Continuation",
    "Decision",
    "EffectRule",
    "Event",
    "Fact",
    "FactCheck",
    "FactKind",
    "FactStatus",
    "Feed",
    "Halt",
    "HandBack",
    "Hold",
    "Interrupt",
    "Outcome",
    "Permit",
    "PlantedRequest",
    "Policy",
    "Progress",
    "Queue",
    "Revision",
    "Run",
    "Schema",
    "Signal",
    "StandingRule",
    "StandingRuleUse",
    "StepResult",
]
