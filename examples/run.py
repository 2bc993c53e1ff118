#!/usr/bin/env python3
"""Run an example against the demo: `python3 examples/run.py langgraph PR-1`. Needs `python3 manage.py demo` running."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ".adapters" / "bin" / "python"


def main(arguments):
    names = sorted(path.parent.name for path in (ROOT / "examples").glob("*/agent.py"))
    if not arguments or arguments[0] not in names:
        return f"usage: run.py NAME [ARGUMENT ...]; NAME is one of {', '.join(names)}"
    demo = Path(os.environ.get("DEMO", ROOT / "var" / "demo.json"))
    if not demo.exists():
        return f"{demo} does not exist. Start the demo first: python3 manage.py demo"
    keys = json.loads(demo.read_text())["keys"]
    server = os.environ.get("REVIEW_QUEUE", "http://localhost:8000")
    own = {"REVIEW_QUEUE": server, "REVIEW_QUEUE_KEY": keys["purchase-requests"]}
    own["PYTHONPATH"] = str(ROOT / "clients" / "python" / "src")
    install()
    name, *more = arguments
    print(f"Decide at {server}", file=sys.stderr)
    command = [PYTHON, ROOT / "examples" / name / "agent.py", *(more or ["PR-1"])]
    return subprocess.run(command, env=os.environ | own, check=False).returncode


def install():
    """Make the environment of the examples from its lock, unless it is there."""
    stamp, lock = PYTHON.parents[1] / ".installed", ROOT / "requirements-adapters.lock"
    if stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return
    uv = VENV / ".tools" / "bin" / "uv"
    print("Installing requirements-adapters.lock ...", file=sys.stderr)
    subprocess.run([uv, "venv", "--quiet", "--clear", PYTHON.parents[1]], check=True)
    subprocess.run([uv, "pip", "sync", "--quiet", "--require-hashes", "--python", PYTHON, lock], check=True)
    stamp.write_text("")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
