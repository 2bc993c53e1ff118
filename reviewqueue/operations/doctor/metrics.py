"""Findings of the doctor as metrics, which `manage.py doctor --metrics FILE` writes for node_exporter."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from reviewqueue.operations.doctor.findings import Finding


def collect_findings(found: Iterable[Finding]) -> CollectorRegistry:
    """Return the number of findings by check and severity, and the time of this run."""
    registry = CollectorRegistry()
    labels = ["check", "severity"]
    findings = Gauge("reviewqueue_doctor_findings", "Findings of the last doctor.", labels, registry=registry)
    for (check, is_wrong), number in Counter((finding.check, finding.is_wrong) for finding in found).items():
        findings.labels(check, "wrong" if is_wrong else "note").set(number)
    text = "Time of the last run of the doctor."
    Gauge("reviewqueue_doctor_run_timestamp_seconds", text, registry=registry).set(time.time())
    return registry
