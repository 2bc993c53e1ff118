"""Deployment files: they parse, and name commands and settings that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands

DEPLOY = settings.ROOT / "deploy"


def test_units_start_commands_that_exist_and_systemd_accepts_them(tmp_path: Path) -> None:
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        text = unit.read_text()
        assert re.findall(r"^ExecStart=\S+ (\w+)$", text, re.M) == [unit.stem.removeprefix("reviewqueue-")]
        (tmp_path / unit.name).write_text(text.replace("/opt/reviewqueue/bin/reviewqueue", "/bin/true"))
    if shutil.which("systemd-analyze"):
        verify = ["systemd-analyze", "verify", *map(str, tmp_path.glob("*.service"))]
        checked = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_containers_run_commands_that_exist_with_settings_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    pods = [
        it
        for it in yaml.safe_load_all((DEPLOY / "kubernetes/reviewqueue.yaml").read_text())
        if "template" in it.get("spec", {})
    ]
    started = [service["command"] for service in services.values() if "command" in service]
    started += [pod["spec"]["template"]["spec"]["containers"][0]["args"] for pod in pods]
    assert {name for [name] in started} == {"migrate", "web", "worker"} <= set(get_commands())
    documented = set(re.findall(r"`([A-Z_]+)`", (settings.ROOT / "docs/settings.md").read_text()))
    named = set(services["web"]["environment"]) | set(re.findall(r"\b([A-Z]+_?[A-Z]*)=", _environment_of_image()))
    assert {name.removesuffix("_FILE") for name in named} - {"PYTHONDONTWRITEBYTECODE"} <= documented
    for pod in pods:
        assert pod["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert services["web"]["read_only"]


def _environment_of_image() -> str:
    return "\n".join(line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line.startswith("ENV "))


def test_alert_rules_and_dashboard_name_metrics_and_labels_that_exist() -> None:
    page = (settings.ROOT / "docs/observability.md").read_text()
    table = re.findall(r"^\| `(reviewqueue_\w+)` \|([^|]*)\|", page, re.M)
    labels_of = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in table}
    labels_of["reviewqueue_http_request_duration_seconds_bucket"] = {"area", "le"}
    queries = [rule["expr"] for rule in _alert_rules()]
    queries += [target["expr"] for panel in _dashboard()["panels"] for target in panel["targets"]]
    for query in queries:
        names = re.findall(r"reviewqueue_\w+", query)
        assert names
        assert set(names) <= set(labels_of), query
        known = {"instance"}.union(*(labels_of[name] for name in names))
        used = re.findall(r"(\w+)(?:=|!=|=~)\"", query) + re.findall(
            r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))
        )
        assert set(used) <= known, query
    assert len({panel["id"] for panel in _dashboard()["panels"]}) == len(_dashboard()["panels"])


def test_alert_rules_cover_what_an_operator_must_know_and_say_what_to_do() -> None:
    rules = {rule["alert"]: rule for rule in _alert_rules()}
    assert len(rules) == len(_alert_rules())
    for rule in rules.values():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert all(rule["annotations"][name].endswith(".") for name in ("summary", "description"))
    checks = re.findall(r"^\| (`[^|]+`) \|", (settings.ROOT / "docs/operations.md").read_text(), re.M)
    [integrity] = re.findall(r'check=~"([^"]+)"', rules["ReviewQueueIntegrity"]["expr"])
    assert set(integrity.split("|")) <= set(re.findall(r"`(\w+)`", " ".join(checks)))


def test_prometheus_accepts_the_alert_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    command = [promtool, "check", "rules", str(DEPLOY / "prometheus/alerts.yaml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _alert_rules() -> list[dict[str, Any]]:
    text = (DEPLOY / "prometheus/alerts.yaml").read_text()
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def _dashboard() -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    return dashboard
