"""`python -m tests.mutation [--sample N] [--seed N] [--processes N] [MODULE ...]`: would a test see a broken line?

Takes a sample of all mutants of the core (the same for the same seed, and for code that did not change), runs for each the
tests of its line in a fork, and prints how many a test killed. The survivors are listed in `survivors.toml`, each with the
reason. Exit status 1: fewer than 95 % of those that are not equivalent were killed, or a survivor is not listed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest

os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "REVIEWQUEUE_MODE": "test", "REVIEWQUEUE_SEED": "1"}
os.environ.pop("DATABASE_URL", None)

from tests.mutation.forks import Forks, Outcome, all_of, as_json
from tests.mutation.line_coverage import ARGUMENTS, CACHE_FILE, ROOT, core, read_or_record, test_files
from tests.mutation.mutants import Module, Mutant

#: Which test killed which mutant in an earlier run: it is tried first.
KILLERS = CACHE_FILE.parent / "killers.json"
SURVIVORS = Path(__file__).parent / "survivors.toml"
KINDS = {"equivalent", "harmless"}
BOUND = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="only these, as runs.use_cases.expire (default: the whole core)")
    parser.add_argument(
        "--sample", type=int, default=400, help="how many mutants, without equivalent ones (default 400)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--processes", type=int, default=2, help="how many forks at once (default 2)")
    parser.add_argument("--seconds", type=float, default=60, help="for the tests of one mutant (default 60)")
    parser.add_argument("--tests", nargs="+", help="only the tests of these files (default: all of the core)")
    parser.add_argument("--record", action="store_true", help="record the line coverage of all tests again")
    parser.add_argument("--list", action="store_true", help="only print the sample")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="of the sample, only mutants whose id contains one of these texts"
    )
    chosen = parser.parse_args()
    listed = known_survivors()
    modules = [module for path in core() if _is_chosen(module := Module(path, root=ROOT), chosen.modules)]
    everything = [(module, mutant) for module in modules for mutant in module.mutants]
    candidates = [(module, it) for module, it in everything if listed.get(it.id, ("", ""))[0] != "equivalent"]
    sample = sorted(candidates, key=lambda it: _place(it[1], chosen.seed))[: chosen.sample]
    sample = [(module, it) for module, it in sample if any(part in it.id for part in chosen.only)]
    if chosen.list:
        print("\n".join(it.id for _, it in sample))
        return 0
    print(f"{len(sample)} of {len(everything)} mutants in {len(modules)} modules, seed {chosen.seed}", flush=True)
    began = time.monotonic()
    files = chosen.tests or test_files()
    coverage = read_or_record(files, processes=chosen.processes, again=chosen.record)
    print(f"{len(coverage.seconds)} tests, line coverage after {time.monotonic() - began:.0f} s", flush=True)
    killers = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    forks = Forks(
        modules,
        sample,
        coverage,
        processes=chosen.processes,
        seconds=chosen.seconds,
        show=Progress(len(sample)).show,
        killers=killers,
    )
    try:
        pytest.main([*ARGUMENTS, *files], plugins=[forks])
    finally:
        KILLERS.write_text(json.dumps(killers, indent=1, sort_keys=True))
    (CACHE_FILE.parent / "outcomes.json").write_text(as_json(forks.outcomes))
    return judge(forks.outcomes, listed, ids={it.id for _, it in everything}, whole=not chosen.modules)


def _is_chosen(module: Module, names: list[str]) -> bool:
    return not names or module.name in names


def _place(mutant: Mutant, seed: int) -> str:
    """Return its place in the sample's order: a change elsewhere in the code moves no other mutant in or out."""
    return hashlib.sha256(f"{seed}:{mutant.id}".encode()).hexdigest()


def known_survivors() -> dict[str, tuple[str, str]]:
    """Return the kind and the reason of each listed survivor, by its id."""
    rows = tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    wrong = [row["mutant"] for row in rows if row["kind"] not in KINDS or not row["reason"]]
    if wrong or len({row["mutant"] for row in rows}) < len(rows):
        raise SystemExit(
            f"{SURVIVORS.name}: each survivor once, its kind one of {sorted(KINDS)}, with a reason: {wrong}"
        )
    return {row["mutant"]: (row["kind"], row["reason"]) for row in rows}


class Progress:
    """One line a mutant."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()

    def show(self, outcome: Outcome) -> None:
        self.done += 1
        passed = time.monotonic() - self.began
        print(
            f"{self.done:4}/{self.total} {passed:6.0f} s  {outcome.how:8} {outcome.tests:4} tests"
            f" {outcome.seconds:5.1f} s  {outcome.mutant.id}"
            + (f"  [{outcome.by}]" if outcome.how != "killed" and outcome.by else ""),
            flush=True,
        )


def judge(outcomes: list[Outcome], listed: dict[str, tuple[str, str]], *, ids: set[str], whole: bool) -> int:
    """Print the table and the survivors; return the exit status."""
    tried = [it for it in outcomes if it.how != "invalid"]
    survived = all_of(tried, "survived")
    by_module = Counter(_module_of(it) for it in tried)
    lost = Counter(_module_of(it) for it in survived)
    print("\nmodule                          mutants  killed")
    for name in sorted(by_module):
        print(f"{name:32} {by_module[name]:6} {by_module[name] - lost[name]:7}")
    killed = len(tried) - len(survived)
    share = killed / len(tried) if tried else 1.0
    print(f"{'all':32} {len(tried):6} {killed:7}  {share:.1%}, {len(all_of(tried, 'timeout'))} by a timeout\n")
    unlisted = [it for it in survived if it.mutant.id not in listed]
    for it in survived:
        kind, reason = listed.get(it.mutant.id, ("NOT LISTED", it.by))
        print(
            f"survived, {kind}: {reason}\n  {it.mutant.path.relative_to(ROOT)}:{it.mutant.lines.start}  {it.mutant.id}"
        )
        print(f"  - {it.mutant.before}\n  + {it.mutant.after}")
    for it in tried:
        if it.how != "survived" and it.mutant.id in listed:
            print(f"listed, but killed: {it.mutant.id}")
    for gone in sorted(set(listed) - ids) if whole else []:
        print(f"listed, but the code has no such mutant any more: {gone}")
    good = share >= BOUND and not unlisted
    print(f"{'Good' if good else 'Not good'}: {share:.1%} killed (at least {BOUND:.0%}), {len(unlisted)} not listed")
    return 0 if good else 1


def _module_of(outcome: Outcome) -> str:
    return ".".join(outcome.mutant.path.relative_to(ROOT).with_suffix("").parts)


if __name__ == "__main__":
    sys.exit(main())
