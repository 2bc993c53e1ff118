"""docs/adapters.md and examples/: the code of the guide is that of the examples, and run.py finds the demo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.docs_session import Block, blocks_of

GUIDE = settings.ROOT / "docs" / "adapters.md"
EXAMPLES = settings.ROOT / "examples"


def lines_of(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


@pytest.mark.parametrize(
    "block", [it for it in blocks_of(GUIDE) if it.language == "python"], ids=lambda block: f"line {block.line}"
)
def test_every_block_of_the_guide_is_part_of_an_example(block: Block):
    assert any(lines_of(block.text) in lines_of(path.read_text()) for path in EXAMPLES.glob("*/*.py"))


def test_every_example_is_in_the_guide_in_the_readme_and_in_a_journey():
    journeys = Path(__file__).with_name("test_journeys.py").read_text()
    for path in EXAMPLES.glob("*/agent.py"):
        name = f"{path.parent.name}/agent.py"
        assert f"examples/{name}" in GUIDE.read_text()
        assert f"examples/{path.parent.name}" in (settings.ROOT / "README.md").read_text()
        assert f'"{name}"' in journeys


def test_an_example_without_a_demo_says_what_to_start(tmp_path: Path):
    command = [sys.executable, str(EXAMPLES / "run.py"), "langgraph"]
    missing = {"DEMO": str(tmp_path / "demo.json")}
    done = subprocess.run(command, env=missing, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "python3 manage.py demo" in done.stderr


def test_an_unknown_example_is_refused_with_the_names():
    done = subprocess.run([sys.executable, EXAMPLES / "run.py", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "dbos, incoming_webhooks, langchain, langgraph, mcp, mcp_elicitation, nats, openai_agents" in done.stderr
