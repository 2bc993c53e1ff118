"""A purchase whose process ends while people decide: `python agent.py PR-1`. Kill it and start it again as it is.

It needs `IMAGE_KEY`, at least 32 characters that only the agent's processes have, such as of
`python -c "import secrets; print(secrets.token_hex(32))"`.

The image of the process, its object with everything it computed, is the file of the checkpoint. A new process restores it,
opens its connection again, and checks that the catalogue, its credential and the effects are still those of the image.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from catalogue import Connection, serve
from purchase import Purchase
from reviewqueue_client import Client, Run, RunEnded
from reviewqueue_client.adapters.process_image import ProcessRunner

ADDRESS = serve()
KEY = os.environ["IMAGE_KEY"].encode()


def connect() -> tuple[Connection, str]:
    connection = Connection(ADDRESS)
    return connection, connection.edition


def new(run: Run) -> Purchase:
    return Purchase(run.key, os.environ.get("DEADLINE", "P2D"))


def validity() -> str:
    return os.environ.get("CREDENTIAL", "2099-12-31")


def carry_out(key: str) -> Any:
    try:
        return client.run(key, title=f"Order {key}", code_version="process-image").execute(runner, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


client = Client()
runner = ProcessRunner(
    new, key=KEY, modules=["purchase"], connections={"catalogue": connect}, credentials={"catalogue": validity}
)
if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        for key, outcome in zip(sys.argv[1:], pool.map(carry_out, sys.argv[1:]), strict=True):
            print(json.dumps({key: outcome}, default=str), flush=True)
