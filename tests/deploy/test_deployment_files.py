"""Deployment files: they parse, and name commands and settings that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

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
