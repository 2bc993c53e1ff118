"""`manage.py demo`: the main job in a small seeded world, with two live sample agents. One command, no settings.

It migrates, starts the web and the worker process, the business records and, whenever something may go on, a process of the
agent that may: while a person thinks, no agent runs. Everything lives in `var/`; started again it goes on where it was.
For this machine only: it prints passwords.
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
from reviewqueue.operations.supervisor import Supervisor
from runs.models import Agent, Run
from runs.states import FINAL
from runs.use_cases.claim_continuation import any_ready

GRACE = Supervisor.grace + 5
SECONDS_TO_COME_UP = 60
SECONDS_AFTER_A_FAILURE = 10
REQUEST = "PR-4711"
SAMPLES = {
    setup.BUYER: ("reviewqueue.demo.purchase_agent", ["go-on"], {CODE_VERSION}),
    setup.SUPPORT: ("reviewqueue.demo.support_agent", [], set()),
}


class Command(BaseCommand):
    help = "Run the product on this machine with a small seeded world and sample agents, until stopped (Ctrl-C)."

    def add_arguments(self, parser: CommandParser) -> None:
        kept = settings.VAR / "demo.json"
        parser.add_argument("--kept", type=Path, default=kept, help="where passwords and keys are kept (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_public_bind()
        refuse_busy_port(settings.HOST, settings.PORT, "PORT=8080 python3 manage.py demo")
        self.kept = setup.Kept(options["kept"])
        self.stop_asked = processes.StopAsked()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        refuse_others_database()
        self.stdout.write("Setting up the demo ...")
        self.stdout.flush()
        try:
            self._start_servers()
            call_command("migrate", verbosity=0, interactive=False)
            setup.add_people_and_rules(self.kept, records=self.records)
            if self._is_up():
                setup.ask_everything(self.kept, queue=self.queue)
                self.children["worker"] = processes.start("worker", LOG_LEVEL="WARNING")
                self._tell()
                self._run_agents()
        finally:
            self._stop()

    # --- servers ------------------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        """Start what takes its time beside the migration; nobody asks the pages for anything before that is done."""
        port = self.kept.all.setdefault("records_port", free_port())  # the agent's connection names it for good
        refuse_busy_port("127.0.0.1", port, "the records of this demo were there; stop what took their place")
        self.records, self.queue = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{settings.PORT}"
        file = self.kept.file.with_name("demo-records.json")
        records = ("-m", "reviewqueue.demo.business_records", "--port", str(port), "--file", str(file))
        self.children = {
            "web": processes.start("web", LOG_LEVEL="ERROR", WEB_PROCESSES="1"),
            "records": processes.start_python(*records),
        }

    def _is_up(self) -> bool:
        """Wait for the sign-in page. False: somebody wants to stop already."""
        until = time.monotonic() + SECONDS_TO_COME_UP
        while not self.stop_asked:
            self._check_children()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.queue + reverse("account_login"), timeout=5).close()  # noqa: S310  our own page
                return True
            if time.monotonic() > until:
                raise CommandError(f"The pages did not come up within {SECONDS_TO_COME_UP} seconds.")
            self.stop_asked.wait(0.1)
        return False

    def _check_children(self) -> None:
        for name, child in self.children.items():
            if child.poll() is not None:
                raise CommandError(f"The {name} process has ended (status {child.returncode}): stopping all.")

    # --- agents -------------------------------------------------------------------------------------------------------

    def _run_agents(self) -> None:
        """Start an agent's process when something of it may go on. Its own fleet would do this: a cron job, a queue."""
        agents = {agent.slug: agent.pk for agent in Agent.objects.filter(slug__in=SAMPLES)}
        running: dict[str, subprocess.Popen[bytes]] = {}
        not_before = dict.fromkeys(SAMPLES, 0.0)
        if not self.kept.all.get("started"):
            running[setup.BUYER] = self._start_agent(setup.BUYER, ["start", REQUEST])
            self.kept.all["started"] = True
            self.kept.save()
        while not self.stop_asked.wait(0.5):
            self._check_children()
            for name, (_, words, code_versions) in SAMPLES.items():
                child = running.get(name)
                if child is not None and child.poll() is None:
                    continue
                if running.pop(name, None) is not None and child is not None and child.returncode:
                    not_before[name] = time.monotonic() + SECONDS_AFTER_A_FAILURE
                agent = Agent(pk=agents[name], slug=name)
                own = next(iter(code_versions), "")
                may_go_on = any_ready(agent=agent, code_version=own, code_versions=code_versions)
                if may_go_on and time.monotonic() >= not_before[name]:
                    running[name] = self._start_agent(name, words)
        for child in running.values():
            processes.stop(child, grace=5)

    def _start_agent(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        module = SAMPLES[name][0]
        key = self.kept.all["keys"][name]
        environment = {"REVIEW_QUEUE": self.queue, "REVIEW_QUEUE_KEY": key, "RECORDS": self.records, "WAIT": "0"}
        return processes.start_python("-m", module, *words, **environment)

    # --- words and the end --------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        people, address = self.kept.all["people"], settings.BASE_URL
        lines = ["", f"Review Queue is at {address}    (Ctrl-C stops it; started again, it goes on where it was)", ""]
        for name, todo in (("rita@example.org", "decides"), ("olga@example.org", f"settles, at {address}/admin/")):
            known = people[name]
            lines.append(f"    {known['is']:9} {name:18} password {known['password']}    {todo}")
        lines.append("  Also: " + ", ".join(_sign_in(it, people[it]) for it in ("leo@example.org", "otto@example.org")))
        place = f"{self.records}/purchase-requests/{REQUEST}/specification"
        lines += [
            "",
            *where_the_purchase_stands(place),
            "",
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()

    def _stop(self) -> None:
        self.stdout.write("Stopping ...")
        for child in self.children.values():
            if child.poll() is None:
                child.terminate()  # all at once, then each in turn is waited for
        for child in self.children.values():
            processes.stop(child, grace=GRACE)


def where_the_purchase_stands(place: str) -> list[str]:
    """Say what the agent that buys waits for: on a later start that may be something else, or nothing."""
    run = Run.objects.filter(agent__slug=setup.BUYER, key=REQUEST).first()
    open_keys = [] if run is None else list(run.interrupts.filter(status="waiting").values_list("key", flat=True))
    if run is not None and run.status in FINAL:
        return [
            f"  The purchase of {REQUEST} has ended ({run.status}); its page tells how, and starts it again if it may."
        ]
    if run is not None and not any(key.startswith("certificate") for key in open_keys):
        waits = f"An agent waits for your answer about {REQUEST}" if open_keys else f"{REQUEST} is {run.status}"
        return [f"  {waits}; the agent runs only when it may go on."]
    return [
        f"  An agent waits for a certificate for {REQUEST}; it runs only when it may go on. Change the specification",
        f"  before you answer:  curl -X PUT {place} -d '{{\"version\": 8}}'",
    ]


def _sign_in(address: str, known: dict[str, str]) -> str:
    return f"{address} ({known['is']}) {known['password']}"


def refuse_public_bind() -> None:
    """The demo prints passwords, so that it must not be reachable from elsewhere."""
    try:
        inside = settings.HOST == "localhost" or ipaddress.ip_address(settings.HOST).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise CommandError(
            f"The demo listens on this machine only, not on HOST={settings.HOST}: its passwords are on the screen. "
            "For others to use it: python3 manage.py up"
        )


def refuse_others_database() -> None:
    """Migrate and seed no database that somebody works with."""
    try:
        foreign = Agent.objects.exclude(slug__in=setup.AGENTS).values_list("slug", flat=True).first()
    except DatabaseError:
        return  # it has no tables yet
    if foreign is not None:
        raise CommandError(f"This database has an agent {foreign}, which is not the demo's: it is left alone.")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
