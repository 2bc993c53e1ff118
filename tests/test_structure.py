"""The figures of ``tests.structure`` are read from the sources as they are described."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests import structure


def test_imports_are_counted_in_functions_and_under_type_checking_too(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "__init__.py").write_text("")
    (tmp_path / "ledger" / "a.py").write_text("from __future__ import annotations\nimport json\nfrom ledger import b\n")
    (tmp_path / "ledger" / "b.py").write_text("def late():\n    from ledger.a import json, late\n")
    (tmp_path / "ledger" / "c.py").write_text("if TYPE_CHECKING:\n    from ledger import a\n")
    monkeypatch.setattr(structure, "ROOT", tmp_path)
    assert structure.imports_by_module() == {
        "ledger.a": {"json", "ledger.b"},
        "ledger.b": {"ledger.a"},
        "ledger.c": {"ledger.a"},
    }
    assert structure.circles() == [["ledger.a", "ledger.b"]]


def test_a_call_into_another_module_of_the_product_is_a_switch():
    def function_in(module: str, body: str):
        names = SimpleNamespace(__name__=module)
        exec(f"def run(*others):\n    {body}", vars(names))  # noqa: S102  our own text
        return vars(names)["run"]

    inner = function_in("runs.inner", "return [each for each in others]")
    foreign = function_in("json", "others[0]()")
    outer = function_in("ledger.outer", "others[0](others[1]); others[1]()")
    crossed = structure.traced(lambda: outer(foreign, inner))
    assert crossed.modules == {"ledger.outer", "runs.inner"}
    assert crossed.switches == {("ledger.outer", "runs.inner"): 2}


def test_the_top_level_of_reviewqueue_has_at_most_fifteen_modules():
    assert len(structure.top_level_modules()) <= 15, "put a module into the package of its subject"
