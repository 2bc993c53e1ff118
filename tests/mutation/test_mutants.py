"""The mutants: every kind is made, ids outlive moved lines, and the changed code runs wherever it was imported."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.mutation import forks
from tests.mutation.__main__ import known_survivors
from tests.mutation.line_coverage import ROOT, core
from tests.mutation.mutants import Module, difference

SOUND = '''
"""A module."""
LIMIT = 3

def checked(function):
    """A decorator."""
    def inside(*arguments):
        return function(*arguments)
    return inside

@checked
def may_begin(run, now, *, most=5):
    """A function."""
    if run is None:
        return False
    if run.ended and not run.lease:
        raise ValueError("ended")
    run.tries += 1
    run.save()
    note(run, now)
    return min(run.tries, most) < 5 or now + 1 >= run.end

QUERY = prepared(lambda: Run.objects.filter(pk=1, lifted_at=None))
'''


@pytest.fixture
def module(tmp_path):
    return a_module(tmp_path, SOUND)


def a_module(tmp_path, source):
    path = tmp_path / "begin.py"
    path.write_text(textwrap.dedent(source))
    return Module(path, root=tmp_path)


@pytest.mark.parametrize(
    "mutant",
    [
        "begin.may_begin: compare: `run is None` -> `run is not None`",
        "begin.may_begin: remove guard: `if run is None:` -> `pass`",
        "begin.may_begin: constant: `False` -> `True`",
        "begin.may_begin: boolean: `run.ended and (not run.lease)` -> `run.ended or not run.lease`",
        "begin.may_begin: remove operand: `run.ended and (not run.lease)` -> `run.ended`",
        "begin.may_begin: remove not: `not run.lease` -> `run.lease`",
        "begin.may_begin: remove statement: `run.tries += 1` -> `pass`",
        "begin.may_begin: remove statement: `run.save()` -> `pass`",
        "begin.may_begin: swap arguments: `note(run, now)` -> `note(now, run)`",
        "begin.may_begin: opposite: `min(run.tries, most)` -> `max(run.tries, most)`",
        "begin.may_begin: arithmetic: `now + 1` -> `now - 1`",
        "begin.may_begin: constant: `5` -> `4`",
        "begin.QUERY: remove filter: `Run.objects.filter(pk=1, lifted_at=None)` -> `Run.objects.filter(pk=1)`",
        "begin.checked.inside: return nothing: `return function(*arguments)` -> `return None`",
    ],
)
def test_each_kind_of_change_is_made(module, mutant):
    assert mutant in {it.id for it in module.mutants}


def test_what_runs_at_import_only_is_left_alone(module):
    assert not [it for it in module.mutants if it.before in {"3", "checked", "most=5"} or "A module" in it.before]


def test_an_id_does_not_change_when_lines_move_and_is_used_once(module, tmp_path):
    moved = a_module(tmp_path, SOUND.replace("def may_begin", "# moved\n\n\ndef may_begin"))
    ids = [it.id for it in module.mutants]
    assert [it.id for it in moved.mutants] == ids
    assert len(set(ids)) == len(ids)


def test_each_mutant_is_other_code_and_leaves_the_module_as_it_was(module):
    before = ast.dump(module.tree)
    for mutant in module.mutants:
        assert module.code_of(mutant) != module.code, mutant.id
        assert ast.dump(module.tree) == before


def test_a_mutant_runs_wherever_the_function_was_imported(module):
    namespace = {"prepared": lambda build: build, "note": lambda *_: None, "Run": None}
    exec(compile(module.tree, str(module.path), "exec"), namespace)  # noqa: S102
    imported_elsewhere = namespace["may_begin"]
    [mutant] = [it for it in module.mutants if it.id == "begin.may_begin: constant: `False` -> `True`"]
    assert imported_elsewhere(None, 0) is False
    assert forks._mutate(module, mutant, forks._live_functions({str(module.path)}))
    assert imported_elsewhere(None, 0) is True


def test_long_texts_show_where_they_differ():
    before, after = "x" * 200 + "< 1", "x" * 200 + "<= 1"
    assert difference(before, after).startswith("`...x")
    assert "< 1`" in difference(before, after)
    assert "<= 1`" in difference(before, after)


def test_the_core_has_thousands_of_mutants_and_each_listed_survivor_has_a_reason():
    assert sum(len(Module(path, root=ROOT).mutants) for path in core()) > 4000
    assert all(reason for _, reason in known_survivors().values())
