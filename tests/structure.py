"""Measures the structure of the product: ``.venv/bin/python -m tests.structure``.

Prints one figure a line with its target. Static figures are read from the sources. The modules that an approval by API
and a request page cross are counted by tracing one warm call of each on a new database.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests import language

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ledger", "runs", "reviewqueue")
TEXTS = (*PACKAGES, "templates", "static", "docs", "tests", "README.md", "CHANGELOG.md", "manage.py")
MAX_TEMPLATE_LINE = 120


@dataclass
class Crossed:
    """The modules of the product whose functions ran, and how often one of them called into another."""

    modules: set[str] = field(default_factory=set)
    switches: Counter[tuple[str, str]] = field(default_factory=Counter)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tests.structure", description=__doc__)
    parser.add_argument("--static", action="store_true", help="leave out the calls, which need a database")
    parser.add_argument("--verbose", action="store_true", help="list the modules, circles and lines that were counted")
    chosen = parser.parse_args(arguments)
    lines, details = static_figures(), static_details()
    if not chosen.static:
        for name, target, crossed in calls():
            lines.append((f"modules crossed by {name}", len(crossed.modules), target))
            lines.append((f"calls from module to module by {name}", crossed.switches.total(), ""))
            details.append((f"modules crossed by {name}", sorted(crossed.modules)))
    for name, figure, target in lines:
        print(f"{figure:>10,}  {name}{f' (target: {target})' if target else ''}")
    if chosen.verbose:
        for name, listed in details:
            print("", f"--- {name}", *listed, sep="\n")


# --- read from the sources --------------------------------------------------------------------------------------------


def static_figures() -> list[tuple[str, float, str]]:
    imports = imports_by_module()
    hits = replaced_words()
    lines = sum(len(path.read_text().splitlines()) for path in product_files())
    return [
        ("modules of the product, without migrations", len(imports), ""),
        ("lines of the product, without migrations", lines, "at most 35,500"),
        ("imported modules per module", round(sum(map(len, imports.values())) / len(imports), 1), "at most 7.5"),
        ("circular imports", len(circles()), "0"),
        ("top-level modules of reviewqueue", len(top_level_modules()), "at most 15"),
        (f"template lines over {MAX_TEMPLATE_LINE} characters", len(long_template_lines()), "0"),
        ("replaced words in texts", sum("name" not in hit.kind for hit in hits), "0"),
        ("replaced words in names", sum("name" in hit.kind for hit in hits), "0"),
    ]


def static_details() -> list[tuple[str, list[str]]]:
    imports = imports_by_module()
    most = sorted(imports.items(), key=lambda item: -len(item[1]))[:20]
    return [
        ("most imports", [f"{len(imported):4} {module}" for module, imported in most]),
        ("circular imports", [" <-> ".join(circle) for circle in circles()]),
        ("long template lines", long_template_lines()),
    ]


def product_files() -> Iterator[Path]:
    """Yield the modules that hold code: not migrations, not the files that make a folder a package."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and path.stem != "__init__":
                yield path


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_by_module() -> dict[str, set[str]]:
    """Return which modules each module imports, the product's and others, also in functions and under TYPE_CHECKING."""
    known = {module_name(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {module_name(path): set(_imported(path, known)) for path in product_files()}


def _imported(path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def circles() -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    every = imports_by_module()
    imports = {module: imported & every.keys() - {module} for module, imported in every.items()}
    reached = {module: _reachable(module, imports) for module in imports}
    groups = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in imports}
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    seen, left = set(), [start]
    while left:
        new = imports[left.pop()] - seen
        seen |= new
        left += new
    return seen


def top_level_modules() -> list[str]:
    return [path.stem for path in (ROOT / "reviewqueue").glob("*.py") if path.stem != "__init__"]


def long_template_lines() -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {len(line)}"
        for path in sorted((ROOT / "templates").rglob("*.*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_TEMPLATE_LINE
    ]


def replaced_words() -> list[language.Hit]:
    files = language.files_under([ROOT / name for name in TEXTS])
    return [hit for path in files for hit in language.hits_in(path, path.relative_to(ROOT).as_posix())]


# --- traced calls -----------------------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[str, str, Crossed]]:
    """Make each call twice on rows of its own, and yield what the second crossed: its name, the target, the modules."""
    with a_new_database():
        from tests.structure_calls import approve_by_api, show_request_page

        for name, target, prepare in (
            ("an approval by API", "at most 22", approve_by_api),
            ("a request page", "at most 35", show_request_page),
        ):
            prepare()()
            yield name, target, traced(prepare())


@contextmanager
def a_new_database() -> Iterator[None]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ.setdefault("REVIEWQUEUE_MODE", "test")
    import django
    from django.test.utils import setup_test_environment

    django.setup()
    from django.db import connection

    setup_test_environment()
    name = connection.settings_dict["NAME"]
    with redirect_stdout(io.StringIO()):
        connection.creation.create_test_db(verbosity=0)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def traced(call: Callable[[], object]) -> Crossed:
    """Call, and note each function of the product that runs, with the module of the product that it was called from."""
    crossed = Crossed()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = _module_of(frame)
        if event != "call" or not module or frame.f_code.co_name.startswith("<"):  # a comprehension is no call
            return
        crossed.modules.add(module)
        before = frame.f_back
        while before is not None and not _module_of(before):
            before = before.f_back
        if before is not None and _module_of(before) != module:
            crossed.switches[_module_of(before), module] += 1

    profiler = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(profiler)
    return crossed


def _module_of(frame: FrameType) -> str:
    """Return the frame's module, or "" where it is not the product's."""
    module = str(frame.f_globals.get("__name__", ""))
    return module if module.partition(".")[0] in PACKAGES else ""


if __name__ == "__main__":
    main(sys.argv[1:])
