"""`manage.py demo`: the product with sample data and two running sample agents. One command, no settings.

It migrates, then starts web, worker, the business records and, whenever a run can continue, a process of its agent: while a
person decides, no agent runs. All data is in `var/`; a second start continues with it. It prints passwords, so it listens on
this machine only.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.urls import reverse

from reviewqueue.demo import setup
from reviewqueue.demo.purchase_agent import CODE_VERSION
from reviewqueue.management.ports import refuse_busy_port
from reviewqueue.operations import processes
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.supervisor import Supervisor
from runs.models import Agent, Run
from runs.states import FINAL
from runs.use_cases.claim_continuation import has_claimable_run

GRACE = Supervisor.grace + 5
SECONDS_TO_START = 60
SECONDS_AFTER_A_FAILURE = 10
REQUEST = "PR-4711"
SAMPLES = {
    setup.BUYER: ("reviewqueue.demo.purchase_agent", ["continue"], {CODE_VERSION}),
    setup.SUPPORT: ("reviewqueue.demo.support_agent", [], set()),
}


class Command(BaseCommand):
    help = "Run the product on this machine with sample data and sample agents until stopped (Ctrl-C)."

    def add_arguments(self, parser: CommandParser) -> None:
        file = settings.VAR / "demo.json"
        parser.add_argument("--file", type=Path, default=file, help="stores passwords and keys (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_public_bind()
        refuse_busy_port(settings.HOST, settings.PORT, f"Try another: PORT=8080 {PROGRAM} demo")
        self.store = setup.DemoFile(options["file"])
        self.stop_asked = processes.StopAsked()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        refuse_foreign_database()
        self.stdout.write("Setting up the demo ...")
        self.stdout.flush()
        try:
            self._start_servers()
            call_command("migrate", verbosity=0, interactive=False)
            setup.add_people_and_rules(self.store, records=self.records)
            if self._is_up():
                setup.create_requests(self.store, queue=self.queue)
                self.children["worker"] = processes.start("worker", LOG_LEVEL="WARNING")
                self._print_sign_ins()
                self._run_agents()
        finally:
            self._stop()

    # --- servers ------------------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        """Start the slow processes beside the migration. They get no request before it is done."""
        port = self.store.content.setdefault(
            "records_port", free_port()
        )  # stored, because the agent's connection has this address
        refuse_busy_port("127.0.0.1", port, "The demo's business records need it. Stop the process that uses it.")
        self.records, self.queue = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{settings.PORT}"
        file = self.store.file.with_name("demo-records.json")
        records = ("-m", "reviewqueue.demo.business_records", "--port", str(port), "--file", str(file))
        self.children = {
            "web": processes.start("web", LOG_LEVEL="ERROR", WEB_PROCESSES="1"),
            "records": processes.start_python(*records),
        }

    def _is_up(self) -> bool:
        """Wait for the sign-in page. Returns False if the demo must stop first."""
        until = time.monotonic() + SECONDS_TO_START
        while not self.stop_asked:
            self._check_children()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.queue + reverse("account_login"), timeout=5).close()  # noqa: S310  this server
                return True
            if time.monotonic() > until:
                raise CommandError(f"The web process did not start within {SECONDS_TO_START} seconds.")
            self.stop_asked.wait(0.1)
        return False

    def _check_children(self) -> None:
        for name, child in self.children.items():
            if child.poll() is not None:
                raise CommandError(f"The {name} process exited with status {child.returncode}. Stopping all processes.")

    # --- agents -------------------------------------------------------------------------------------------------------

    def _run_agents(self) -> None:
        """Start an agent's process when one of its runs can continue; elsewhere a cron job or a queue does this."""
        agents = {agent.slug: agent.pk for agent in Agent.objects.filter(slug__in=SAMPLES)}
        running: dict[str, subprocess.Popen[bytes]] = {}
        not_before = dict.fromkeys(SAMPLES, 0.0)
        if not self.store.content.get("started"):
            running[setup.BUYER] = self._start_agent(setup.BUYER, ["start", REQUEST])
            self.store.content["started"] = True
            self.store.save()
        while not self.stop_asked.wait(0.5):
            self._check_children()
            for name, (_, arguments, code_versions) in SAMPLES.items():
                child = running.get(name)
                if child is not None and child.poll() is None:
                    continue
                if running.pop(name, None) is not None and child is not None and child.returncode:
                    not_before[name] = time.monotonic() + SECONDS_AFTER_A_FAILURE
                agent = Agent(pk=agents[name], slug=name)
                own = next(iter(code_versions), "")
                is_ready = has_claimable_run(agent=agent, code_version=own, code_versions=code_versions)
                if is_ready and time.monotonic() >= not_before[name]:
                    running[name] = self._start_agent(name, arguments)
        for child in running.values():
            processes.stop(child, grace=5)

    def _start_agent(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        module = SAMPLES[name][0]
        key = self.store.content["keys"][name]
        environment = {"REVIEW_QUEUE": self.queue, "REVIEW_QUEUE_KEY": key, "RECORDS": self.records, "WAIT": "0"}
        return processes.start_python("-m", module, *arguments, **environment)

    # --- output and stop ----------------------------------------------------------------------------------------------

    def _print_sign_ins(self) -> None:
        people, url = self.store.content["people"], settings.BASE_URL
        lines = ["", f"Review Queue is at {url}    (Ctrl-C stops it; a second start continues with the same data)", ""]
        for name, task in (
            ("rita@example.org", "decides requests"),
            ("olga@example.org", f"resolves unknown outcomes, at {url}/outcomes"),
        ):
            person = people[name]
            lines.append(f"    {person['is']:9} {name:18} password {person['password']}    {task}")
        lines.append("  Also: " + ", ".join(_sign_in(it, people[it]) for it in ("leo@example.org", "otto@example.org")))
        place = f"{self.records}/purchase-requests/{REQUEST}/specification"
        lines += [
            "",
            *purchase_status(place),
            "",
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()

    def _stop(self) -> None:
        self.stdout.write("Stopping ...")
        for child in self.children.values():
            if child.poll() is None:
                child.terminate()  # all at once, then wait for each
        for child in self.children.values():
            processes.stop(child, grace=GRACE)


def purchase_status(place: str) -> list[str]:
    """Return lines about the purchase run. After a restart of the demo it can wait for something else, or have ended."""
    run = Run.objects.filter(agent__slug=setup.BUYER, key=REQUEST).first()
    open_keys = [] if run is None else list(run.interrupts.filter(status="waiting").values_list("key", flat=True))
    if run is not None and run.status in FINAL:
        return [f"  The purchase run {REQUEST} has ended ({run.status}). Its page shows its history."]
    if run is not None and not any(key.startswith("certificate") for key in open_keys):
        status = f"An agent waits for your decision about {REQUEST}" if open_keys else f"{REQUEST} is {run.status}"
        return [f"  {status}. Its process starts only when the run can continue."]
    return [
        f"  An agent waits for a certificate for {REQUEST}; its process starts only when the run can continue.",
        f"  Attach this file to your answer:  {Path(setup.__file__).with_name('load-test-certificate.pdf')}",
        f"  Change the specification before you answer:  curl -X PUT {place} -d '{{\"version\": 8}}'",
    ]


def _sign_in(address: str, person: dict[str, str]) -> str:
    return f"{address} ({person['is']}) {person['password']}"


def refuse_public_bind() -> None:
    """Refuse HOST unless it is this machine: the demo prints passwords."""
    try:
        is_local = settings.HOST == "localhost" or ipaddress.ip_address(settings.HOST).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise CommandError(
            f"The demo listens on this machine only, not on HOST={settings.HOST}, because it prints passwords. "
            f"To serve other machines, run: {PROGRAM} up"
        )


def refuse_foreign_database() -> None:
    """Refuse to migrate and fill a database that has other agents."""
    try:
        foreign = Agent.objects.exclude(slug__in=setup.AGENTS).values_list("slug", flat=True).first()
    except DatabaseError:
        return  # no tables yet
    if foreign is not None:
        raise CommandError(
            f"This database has an agent {foreign} that is not the demo's. The demo needs a database of its own."
        )


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
