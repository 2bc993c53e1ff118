"""Clients that code generators make from the OpenAPI document: they compile, and they work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import document
from reviewqueue.operations.api_keys import create_agent_key
from tests import builders

BIN = Path(sys.executable).parent
#: Generators and linters of npm, as `npm ci --ignore-scripts` in `clients/typescript` installs them.
NODE_TOOLS = settings.ROOT / "clients" / "typescript" / "node_modules" / ".bin"
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and NODE_TOOLS.exists()),
    reason="needs Node 20 and `npm ci --ignore-scripts` in clients/typescript",
)


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """Write the document as a server of a company publishes it."""
    path = tmp_path / "openapi.json"
    path.write_text(dumps(document() | {"servers": [{"url": "https://review.company.com"}]}))
    return path


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, which must succeed, and return its output."""
    paths = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(cwd)}
    paths |= {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}  # no call beyond this machine
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_openapi_python_client_makes_a_client_that_starts_a_run(described: Path, live_server):
    told = run("openapi-python-client", "generate", "--path", described, "--output-path", "made", cwd=described.parent)
    assert "WARNING parsing" not in told
    assert "Unable to process" not in told
    run(sys.executable, "-m", "compileall", "-q", "made", cwd=described.parent)
    script = f"""
from review_queue_client import AuthenticatedClient
from review_queue_client.api.runs import start_run
from review_queue_client.models import StartRunRequest
client = AuthenticatedClient(base_url={live_server.url!r}, token={create_agent_key(builders.an_agent()).text!r})
print(start_run.sync(client=client, body=StartRunRequest(title="One", key="PR-1")).status.value)
"""
    assert run(sys.executable, "-c", script, cwd=described.parent / "made").strip() == "running"


@pytest.mark.slow
def test_datamodel_code_generator_makes_models_that_read_an_example(described: Path):
    made = described.with_name("models.py")
    options = ["--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin"]
    options += ["--type-mappings", "string+email=string"]  # the type for e-mail addresses needs another library
    run("datamodel-codegen", *options, "--input", described, "--output", made, cwd=described.parent)
    script = """
import models
print(models.StartRunRequest(title="One", key="PR-1").model_dump(exclude_none=True))
"""
    assert run(sys.executable, "-c", script, cwd=described.parent).strip() == "{'key': 'PR-1', 'title': 'One'}"


@pytest.mark.slow
@needs_node
def test_openapi_typescript_makes_types_that_compile(described: Path):
    run(NODE_TOOLS / "openapi-typescript", described, "-o", "api.d.ts", cwd=described.parent)
    described.with_name("tsconfig.json").write_text(
        '{"compilerOptions": {"strict": true, "noEmit": true, "types": []}}'
    )
    described.with_name("use.ts").write_text(
        'import type { components } from "./api";\n'
        'export const run: components["schemas"]["StartRunRequest"] = { key: "PR-1", title: "One" };\n'
    )
    run(NODE_TOOLS / "tsc", "-p", ".", cwd=described.parent)


@pytest.mark.slow
@needs_node
def test_linters_report_nothing(described: Path):
    described.with_name(".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    told = run(NODE_TOOLS / "spectral", "lint", "--fail-severity", "hint", described, cwd=described.parent)
    assert "No results" in told
    told = run(NODE_TOOLS / "redocly", "lint", described, cwd=described.parent)
    assert "warning" not in told.lower().partition("validating")[2]
