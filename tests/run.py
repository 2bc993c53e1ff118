"""`python3 manage.py test [--on sqlite|postgresql] [--all] [--long] [pytest arguments]`: all checks by one command.

In this order: format, lint, types, layers, Django's checks, migrations, templates; then the suite on SQLite; then on a
PostgreSQL started for the run: the suite, races and kills, the browser. Every part runs even if an earlier one failed,
and the last lines show how each ended.

Without options the run is short: under ten minutes on two cores. It covers every part on both databases, and leaves out
slow tests, most cases of tests with many cases, and a share of the tests on PostgreSQL and in the browser. The last
line says how many tests it left out. `--all` runs everything, within 30 minutes.

With pytest arguments (a path, `-k`, `-x` ...) only those tests run, all of them, without the checks. `--long` runs
everything, the long tests too, and raises the numbers of races and kills.
One seed decides everything that tests draw at random. It is fixed in the short run; `--all` draws a new one, and a run
that fails prints how to repeat it. `--seed N` sets it.
`--promises` runs only the tests of the promises of reliability and writes `docs/reliability.md`; `--record` runs
everything and writes it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests import figures, postgresql, promises, sampling

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TESTS = ROOT / "tests"
PROCESSES = "2"
#: Tests in a browser wait for pages, and races and kills for other processes and deadlines, about half of their time:
#: one more process keeps two cores busy.
PROCESSES_THAT_WAIT = "3"
USAGE_ERROR, NOTHING_COLLECTED = 4, 5  # pytest's exit statuses
#: The share of each file's tests that the short run keeps, by part.
SHARES = {"suite on SQLite": "1/1", "suite on PostgreSQL": "1/2", "races and kills": "1/3", "browser": "1/3"}


class UnknownArguments(Exception):
    """pytest refused its arguments: no test has run."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one part of the run ended."""

    part: str
    good: bool
    result: str
    seconds: float


@dataclass(kw_only=True)
class Run:
    long: bool
    environment: dict[str, str]
    short: bool = False
    left_out: Path = Path("/nonexistent")
    only: str = ""
    repeated_by: str = ""
    endings: list[Ending] = field(default_factory=list)

    def note(self, part: str, good: bool, result: str, began: float) -> None:
        self.endings.append(Ending(part=part, good=good, result=result, seconds=time.monotonic() - began))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="manage.py test",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
        allow_abbrev=False,  # "--rec" must not write a page
    )
    parser.add_argument("--on", choices=("sqlite", "postgresql"), help="one database only (default: both)")
    parser.add_argument("--all", action="store_true", help="every test, with a new random seed (CI)")
    parser.add_argument("--long", action="store_true", help="also the long tests, and thousands of races and kills")
    parser.add_argument("--checks", action="store_true", help="only the checks before the tests")
    parser.add_argument("--promises", action="store_true", help="only tests of promises; writes docs/reliability.md")
    parser.add_argument("--record", action="store_true", help="every test, and writes docs/reliability.md")
    parser.add_argument("--seed", type=int, help="of everything drawn at random (default: a fixed one)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="run the random histories with N seeds")
    chosen, pytest_arguments = parser.parse_known_args(arguments)
    chosen.seed = choose_seed(chosen)
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings", "REVIEWQUEUE_MODE": "test"}
    environment |= {"REVIEWQUEUE_LONG": "1"} if chosen.long else {}
    environment.pop("DATABASE_URL", None)  # tests never run in a database that is in use
    keep_bytecode(environment)
    with tempfile.TemporaryDirectory(prefix="reviewqueue-figures-") as folder:
        seen = Path(folder) / "figures"
        environment |= {"REVIEWQUEUE_SEED": str(chosen.seed), "REVIEWQUEUE_FIGURES": str(seen)}
        environment |= {"REVIEWQUEUE_SEEDS": str(chosen.seeds), "PYTHONHASHSEED": str(chosen.seed % 2**32)}
        run = Run(long=chosen.long, environment=environment, only="proves" if chosen.promises else "")
        run.short = not pytest_arguments and not (chosen.all or chosen.long or chosen.promises or chosen.record)
        run.left_out = Path(folder) / "left-out"
        run.repeated_by = command_that_repeats(chosen, pytest_arguments)
        try:
            if not pytest_arguments and not chosen.promises:
                check(run)
            if not chosen.checks:
                test(run, on=chosen.on, pytest_arguments=pytest_arguments)
                show_promises(figures.load(seen), chosen, write=_is_to_write(chosen, pytest_arguments))
        except UnknownArguments:
            return 2
        except KeyboardInterrupt:
            run.endings.append(Ending(part="everything after", good=False, result="interrupted", seconds=0))
        return close(run)


def keep_bytecode(environment: dict[str, str]) -> None:
    """Compile each module once, also where PYTHONDONTWRITEBYTECODE is set: these tests start hundreds of processes.

    What that variable protects, the folders of the sources, stays clean: the bytecode is kept in the environment.
    """
    if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
        environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix) / ".bytecode"))


def choose_seed(chosen: argparse.Namespace) -> int:
    """Return the seed of `--seed`, else a random one for `--all`, `--promises` and `--record`, else the fixed one."""
    if chosen.seed is not None:
        return int(chosen.seed)
    if chosen.all or chosen.promises or chosen.record:
        return random.SystemRandom().randrange(1, 1_000_000)
    return figures.FIXED_SEED


def command_that_repeats(chosen: argparse.Namespace, pytest_arguments: list[str]) -> str:
    flags = [f"--{name}" for name in ("all", "long", "promises", "record") if getattr(chosen, name)]
    flags += [f"--on {chosen.on}"] if chosen.on else []
    flags += [f"--seeds {chosen.seeds}"] if chosen.seeds > 1 else []
    return " ".join(["python3 manage.py test", *flags, f"--seed {chosen.seed}", shlex.join(pytest_arguments)]).strip()


def _is_to_write(chosen: argparse.Namespace, pytest_arguments: list[str]) -> bool:
    return (chosen.promises or chosen.record) and not pytest_arguments


# --- cheap checks -----------------------------------------------------------------------------------------------------


def check(run: Run) -> None:
    headline("Checks")
    environment = run.environment | {"PYTHONPATH": str(ROOT)}
    checks = commands_of_checks()
    with ThreadPoolExecutor(max_workers=int(PROCESSES)) as several_at_once:
        results = several_at_once.map(lambda check: run_check(check[1], environment), checks)
        for (name, command), (good, output, seconds) in zip(checks, results, strict=True):
            print(f"{'ok  ' if good else 'FAIL'} {name}", flush=True)
            if not good:
                print(f"{output}\n     command: {shown(command)}\n", flush=True)
            run.endings.append(
                Ending(part=name, good=good, result="ok" if good else "failed, see above", seconds=seconds)
            )


def run_check(command: list[str], environment: dict[str, str]) -> tuple[bool, str, float]:
    """Return whether the check passed, its output, and the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr, time.monotonic() - began


def commands_of_checks() -> list[tuple[str, list[str]]]:
    django = [sys.executable, "-m", "django"]
    checks = [
        ("format", [program("ruff"), "format", "--check", "--quiet", "."]),
        ("lint", [program("ruff"), "check", "--quiet", "."]),
        ("types", [program("mypy"), "--no-error-summary"]),  # beside all that follow: it takes the longest
        ("layers", [program("lint-imports"), "--no-logo"]),
        ("check", [*django, "check", "--fail-level", "WARNING"]),
        ("migrations", [*django, "makemigrations", "--check", "--dry-run"]),
        ("types of the client", [program("mypy"), "--config-file", "clients/python/mypy.ini"]),
    ]
    templates = [str(path) for path in sorted((ROOT / "templates").rglob("*.html"))]
    if templates:
        checks.append(("template tags", [program("djade"), "--target-version", "5.2", "--check", *templates]))
        layout = ["--indent-width", "2", "--line-length", "120", "--check"]
        checks.append(("template format", [program("djangofmt"), *layout, *templates]))
    return checks


def program(name: str) -> str:
    """Return its path in this environment, else on PATH."""
    beside = BIN / name
    return str(beside) if beside.exists() else shutil.which(name) or name


def shown(command: list[str]) -> str:
    parts = [part.replace(f"{ROOT}/", "") for part in command]
    return " ".join(parts[:8] + (["..."] if len(parts) > 8 else []))


# --- tests ------------------------------------------------------------------------------------------------------------


def test(run: Run, *, on: str | None, pytest_arguments: list[str]) -> None:
    browser = find_browser(run)
    parts = own_choice if pytest_arguments else whole_suite
    with contextlib.ExitStack() as until_the_end:
        databases = started_databases(run, on, until_the_end)
        templates = {} if pytest_arguments else migrated_templates(run, databases)
        for name, database in databases.items():
            addressed = {"DATABASE_URL": database.address} if name == "PostgreSQL" else {}
            addressed |= {"REVIEWQUEUE_TEMPLATE": database.template} if name in templates else {}
            has_browser = browser and (name == "PostgreSQL" or on == "sqlite")
            parts(run, name, addressed, browser=has_browser, pytest_arguments=pytest_arguments)


@dataclass(frozen=True)
class Database:
    """The URL of the database that tests replace by their own, and of the template of those."""

    address: str
    template: str


def started_databases(run: Run, on: str | None, until_the_end: contextlib.ExitStack) -> dict[str, Database]:
    """Return the databases to test on, in this order. Without a PostgreSQL the run fails, and tests on the other."""
    databases = {}
    if on != "postgresql":
        folder = until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="reviewqueue-template-"))
        databases["SQLite"] = Database("", f"sqlite:///{folder}/template.sqlite3")
    if on == "sqlite":
        return databases
    began = time.monotonic()
    try:
        server = until_the_end.enter_context(postgresql.started())
    except postgresql.NoPostgreSQL as problem:
        print(problem, flush=True)
        run.note("suite on PostgreSQL", False, "no PostgreSQL, see above", began)
    else:
        template = server.make_database("template_reviewqueue")
        databases["PostgreSQL"] = Database(server.address("reviewqueue"), template)
    return databases


def migrated_templates(run: Run, databases: dict[str, Database]) -> set[str]:
    """Migrate one database of each kind, at the same time, for all test processes to copy. Return which were migrated.

    Without one, each process migrates its own.
    """
    command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
    shared = run.environment | {"PYTHONPATH": str(ROOT)}
    started = {
        name: subprocess.Popen(
            command,
            cwd=ROOT,
            env=shared | {"DATABASE_URL": database.template},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, database in databases.items()
    }
    return {name for name, migration in started.items() if migration.wait() == 0}


def whole_suite(
    run: Run, database: str, addressed: dict[str, str], *, browser: bool, pytest_arguments: list[str]
) -> None:
    two_at_once = in_processes(PROCESSES)
    # The result of other tests on PostgreSQL would be the same as on SQLite, where they ran.
    suite = [*two_at_once, "--only-with-database"] if database == "PostgreSQL" else two_at_once
    pytest(run, f"suite on {database}", addressed, suite, marks="not postgresql and not browser")
    if database == "PostgreSQL":
        files = files_with("mark.postgresql")  # only these are imported
        pytest(
            run,
            "races and kills",
            addressed,
            [*in_processes(PROCESSES_THAT_WAIT), *files],
            marks="postgresql and not browser",
        )
    if browser and not run.only:
        in_browser = [*in_processes(PROCESSES_THAT_WAIT), str(TESTS / "browser")]
        pytest(run, "browser", addressed, in_browser, marks="browser")


def in_processes(processes: str) -> list[str]:
    return ["-n", processes, "--dist", "worksteal", "--durations=15", "--durations-min=2"]


def files_with(text: str) -> list[str]:
    return [str(path) for path in sorted(TESTS.rglob("test_*.py")) if text in path.read_text()]


def own_choice(
    run: Run, database: str, addressed: dict[str, str], *, browser: bool, pytest_arguments: list[str]
) -> None:
    marks = "not postgresql" if database == "SQLite" else ""
    pytest(run, f"chosen tests on {database}", addressed, pytest_arguments, marks=marks)


def pytest(run: Run, part: str, addressed: dict[str, str], arguments: list[str], *, marks: str) -> None:
    headline(part[0].upper() + part[1:])
    wanted = ["not benchmark", *([] if run.long else ["not long"]), *([f"({marks})"] if marks else [])]
    wanted += [run.only] if run.only else []
    command = [sys.executable, "-m", "pytest", "-q", "-m", " and ".join(wanted), *arguments]
    if sys.stdout.isatty():
        command.append("--color=yes")
    began = time.monotonic()
    environment = run.environment | addressed
    if run.short:
        environment |= {"REVIEWQUEUE_SHARE": SHARES[part], "REVIEWQUEUE_LEFT_OUT": str(run.left_out)}
    status, last_line = run_and_show(command, environment)
    if status == USAGE_ERROR:
        raise UnknownArguments
    good = status in (0, NOTHING_COLLECTED)
    run.note(part, good, last_line or f"pytest ended with status {status}", began)


def run_and_show(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Show the output while the command runs. Returns its status and its last line, for the closing summary."""
    output = b""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        assert child.stdout
        try:
            while piece := os.read(child.stdout.fileno(), 65536):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                output = (output + piece)[-4000:]
        except KeyboardInterrupt:
            child.wait()  # it got the same Ctrl-C, and cleans up after itself
            raise
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return child.returncode, lines[-1] if lines else ""


def find_browser(run: Run) -> bool:
    """Whether there is a chromium. Without one the browser tests do not run: a warning, in CI an error."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        run.environment["CHROMIUM"] = found
        return True
    print(
        "\n*** No chromium: the browser tests are NOT run. Debian: apt install chromium; or set CHROMIUM. ***",
        flush=True,
    )
    in_ci = os.environ.get("CI", "").lower() in ("1", "true", "yes")
    run.note("browser", not in_ci, "FAILED: no chromium" if in_ci else "NOT RUN: no chromium", time.monotonic())
    return False


# --- the promises -----------------------------------------------------------------------------------------------------


def show_promises(proofs: list[figures.Proof], chosen: argparse.Namespace, *, write: bool) -> None:
    """Print the results of each promise over all parts, and write them to the page if ``write``."""
    if not proofs:
        return
    databases = ["PostgreSQL", "SQLite"] if chosen.on is None else [proofs[0].database]
    seen = {name: figures.rows_of(proof for proof in proofs if proof.database == name) for name in databases}
    under = circumstances(chosen)
    for name, rows in seen.items():
        headline(f"Promises on {name}")
        print("\n".join(figures.table(rows)))
    print(f"commit {under.commit}, seed {under.seed}, {under.machine}", flush=True)
    if write:
        promises.write_results(seen=seen, under=under)
        promises.write_proofs()
        print(
            f"Written to {promises.PAGE.relative_to(ROOT)} and {promises.PAGE_OF_TESTS.relative_to(ROOT)}.", flush=True
        )


def circumstances(chosen: argparse.Namespace) -> promises.Circumstances:
    options = ["--promises" if chosen.promises else "--record"]
    options += [f"--on {chosen.on}"] if chosen.on else []
    options += ["--long"] if chosen.long else []
    return promises.Circumstances(
        commit=commit(),
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine=f"{os.cpu_count()} cores of {platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, {postgresql_version()}, SQLite {sqlite3.sqlite_version}",
        seed=chosen.seed,
        command=" ".join(["python3 manage.py test", *options, f"--seed {chosen.seed}"]),
    )


def commit() -> str:
    """Return the commit of this tree, marked where it has changes."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return "unknown"
    command = [git, "describe", "--always", "--abbrev=12", "--dirty= with changes", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def postgresql_version() -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            postgres = postgresql.binaries(Path(folder)) / "postgres"
        except postgresql.NoPostgreSQL:
            return "no PostgreSQL"
        output = subprocess.run([str(postgres), "--version"], capture_output=True, text=True, check=False).stdout
    return " ".join(output.replace("(PostgreSQL)", "").split()).replace("postgres ", "PostgreSQL ")


# --- the end ----------------------------------------------------------------------------------------------------------


def headline(text: str) -> None:
    print(f"\n--- {text} {'-' * max(0, 100 - len(text))}", flush=True)


def close(run: Run) -> int:
    headline("Summary")
    for ending in run.endings:
        print(f"{'ok  ' if ending.good else 'FAIL'} {ending.part:22} {ending.seconds:6.1f} s  {ending.result}")
    failed = [ending.part for ending in run.endings if not ending.good]
    print(f"\nFailed: {', '.join(failed)}" if failed else "\nAll good.", flush=True)
    if failed and run.repeated_by:
        print(f"To repeat it: {run.repeated_by}", flush=True)
    if left_out := sampling.total_left_out(run.left_out):
        print(f"Left out: {left_out:,} tests; run them with --all", flush=True)
    return 1 if failed else 0
