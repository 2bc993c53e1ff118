"""The mutants of a module: small changes of its syntax tree inside functions, each with an id that line moves don't change.

Left out: what runs at import only (module constants, class bodies, decorators, defaults, annotations), strings, logging,
``assert_open`` and the clauses of row locks, which SQLite ignores and the races on PostgreSQL test.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Calls whose keyword arguments narrow a query: each is removed.
NARROWING = {"filter", "exclude", "get", "Q"}
#: Calls left as they are: they lock, log, load more at once, or only check the programmer.
UNTOUCHED = {
    "assert_open",
    "cast",
    "defer",
    "info",
    "isinstance",
    "locked",
    "only",
    "select_for_update",
    "select_related",
    "warning",
}
#: Conditions that have mutants of their own: negating the whole would be one of them again.
CHANGED_INSIDE = (ast.Compare, ast.BoolOp, ast.UnaryOp)
LONGEST_TEXT = 110


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: where the changed node is put (``parent``, ``name``, ``index``), and the lines whose tests see it."""

    id: str
    path: Path
    lines: range
    before: str
    after: str
    parent: ast.AST = field(repr=False, compare=False)
    name: str = field(repr=False, compare=False)
    index: int | None = field(repr=False, compare=False)
    node: ast.AST = field(repr=False, compare=False)


class Module:
    """The syntax tree of one file, its code and its mutants."""

    def __init__(self, path: Path, *, root: Path) -> None:
        self.path = path
        self.name = ".".join(path.relative_to(root).with_suffix("").parts)
        self.tree = ast.parse(path.read_text())
        self.code = codes_of(self._compiled())
        self.mutants: list[Mutant] = []
        self._counted: dict[str, int] = {}
        self._walk(self.tree, function="", within=[], statement=None)

    def code_of(self, mutant: Mutant) -> dict[tuple[str, int, int], CodeType]:
        """Compile the module with this one change. Raises ``SyntaxError`` where the change is no Python."""
        place = getattr(mutant.parent, mutant.name)
        if mutant.index is None:
            setattr(mutant.parent, mutant.name, mutant.node)
        else:
            sound, place[mutant.index] = place[mutant.index], mutant.node
        try:
            return codes_of(self._compiled())
        finally:
            if mutant.index is None:
                setattr(mutant.parent, mutant.name, place)
            else:
                place[mutant.index] = sound

    def _compiled(self) -> CodeType:
        return compile(self.tree, str(self.path), "exec", dont_inherit=True)

    def _walk(self, node: ast.AST, *, function: str, within: list[str], statement: ast.stmt | None) -> None:
        for name, value in ast.iter_fields(node):
            if name in {"decorator_list", "annotation", "returns", "args"} and not isinstance(node, ast.Call):
                continue
            children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, child in children:
                if isinstance(child, ast.AST):
                    self._visit(node, name, index, child, function=function, within=within, statement=statement)

    def _visit(
        self,
        parent: ast.AST,
        name: str,
        index: int | None,
        node: ast.AST,
        *,
        function: str,
        within: list[str],
        statement: ast.stmt | None,
    ) -> None:
        if isinstance(node, ast.stmt):
            statement = node
        if isinstance(node, ast.Call) and _called(node) in UNTOUCHED:
            if isinstance(node.func, ast.Attribute):
                self._visit(
                    node.func, "value", None, node.func.value, function=function, within=within, statement=statement
                )
            return
        if function:
            for kind, changed in changes(node):
                self._add(parent, name, index, node, kind, changed, function=function, statement=statement)
        if isinstance(node, ast.ClassDef):
            within = [*within, node.name]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            within = [*within, node.name]
            function = ".".join(within)
        elif isinstance(node, ast.Lambda) and not function:
            function = ".".join([*within, _assigned(statement)])
        self._walk(node, function=function, within=within, statement=statement)

    def _add(
        self,
        parent: ast.AST,
        name: str,
        index: int | None,
        node: ast.AST,
        kind: str,
        changed: ast.AST,
        *,
        function: str,
        statement: ast.stmt | None,
    ) -> None:
        before, after = shown(node), shown(changed)
        if kind == "swap arguments" and before == after:
            return
        text = f"{self.name}.{function}: {kind}: {difference(before, after)}"
        nth = self._counted[text] = self._counted.get(text, 0) + 1
        lines = _lines_of(node, statement)
        ast.copy_location(changed, node)
        ast.fix_missing_locations(changed)
        self.mutants.append(
            Mutant(
                id=text if nth == 1 else f"{text} ({nth})",
                path=self.path,
                lines=lines,
                before=before,
                after=after,
                parent=parent,
                name=name,
                index=index,
                node=changed,
            )
        )


def _lines_of(node: Any, statement: ast.stmt | None) -> range:
    """Return the lines whose tests run the node: its own, and those of the simple statement that it is part of."""
    whole = node if isinstance(node, ast.stmt) else statement
    if isinstance(whole, ast.If | ast.While):
        return range(whole.lineno, (whole.test.end_lineno or whole.lineno) + 1)
    has_lambda = whole is not None and any(isinstance(it, ast.Lambda) for it in ast.walk(whole))
    of = node if has_lambda or whole is None or hasattr(whole, "body") else whole
    return range(of.lineno, (of.end_lineno or of.lineno) + 1)


def codes_of(code: CodeType) -> dict[tuple[str, int, int], CodeType]:
    """Return every code object in ``code``, at any depth, by qualified name, first line and place among its equals."""
    found: dict[tuple[str, int, int], CodeType] = {}

    def collect(inner: CodeType) -> None:
        nth = sum(1 for name, line, _ in found if (name, line) == (inner.co_qualname, inner.co_firstlineno))
        found[inner.co_qualname, inner.co_firstlineno, nth] = inner
        for constant in inner.co_consts:
            if isinstance(constant, CodeType):
                collect(constant)

    collect(code)
    return found


# --- changes of one node ----------------------------------------------------------------------------------------------


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Return the changed copies of one node, each with its kind."""
    if isinstance(node, ast.Compare):
        yield from _with_each(node, "ops", COMPARISONS, "compare")
    elif isinstance(node, ast.BoolOp):
        yield "boolean", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for place in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != place]
            yield "remove operand", _with(node, values=rest) if len(rest) > 1 else copy.deepcopy(rest[0])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "remove not", copy.deepcopy(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield "arithmetic", _with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant):
        yield from _changed_constant(node)
    elif isinstance(node, ast.Call):
        yield from _changed_call(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for place, generator in enumerate(node.generators):
            if generator.ifs:
                changed = copy.deepcopy(node)
                changed.generators[place].ifs = []
                yield "remove condition", changed
    elif isinstance(node, ast.IfExp) and not isinstance(node.test, CHANGED_INSIDE):
        yield "negate", _with(node, test=ast.UnaryOp(op=ast.Not(), operand=copy.deepcopy(node.test)))
    elif isinstance(node, ast.stmt):
        yield from _changed_statement(node)


def _changed_constant(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value - 1)


def _changed_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name = _called(node)
    if isinstance(node.func, ast.Name) and name in OPPOSITES:
        yield "opposite", _with(node, func=ast.Name(OPPOSITES[name], ast.Load()))
    if len(node.args) > 1 and type(node.args[0]) is type(node.args[1]) and not isinstance(node.args[0], ast.Starred):
        first, second, *more = node.args  # two of one sort: others would only raise a TypeError
        yield "swap arguments", _with(node, args=[second, first, *more])
    if name in NARROWING:
        for place, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                yield "remove filter", _with(node, keywords=[*node.keywords[:place], *node.keywords[place + 1 :]])


def _changed_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, CHANGED_INSIDE):
        yield "negate", _with(node, test=ast.UnaryOp(op=ast.Not(), operand=copy.deepcopy(node.test)))
    if (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue)
    ):
        yield "remove guard", ast.Pass()
    elif _does_something(node):
        yield "remove statement", ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not _is_falsy(node.value):
        yield "return nothing", ast.Return(ast.Constant(None))


def _does_something(node: ast.stmt) -> bool:
    """Tell whether the statement is a call or a write into something; a plain name would only be missing."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _called(node.value) not in UNTOUCHED
    writes = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return writes or isinstance(node, ast.AugAssign)


def _with_each(node: Any, name: str, others: dict[Any, Any], kind: str) -> Iterator[tuple[str, ast.AST]]:
    for place, operator in enumerate(getattr(node, name)):
        changed = copy.deepcopy(node)
        getattr(changed, name)[place] = others[type(operator)]()
        yield kind, changed


def _with(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return copy.deepcopy(changed)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_falsy(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, False)


def _assigned(statement: ast.stmt | None) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    return getattr(target, "id", "<lambda>")


# --- text -------------------------------------------------------------------------------------------------------------


def shown(node: ast.AST) -> str:
    """Return the node as one line; of a statement with a body, its first line."""
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0]


def difference(before: str, after: str) -> str:
    """Return ``before -> after`` without the long parts that are the same at both ends."""
    if len(before) <= LONGEST_TEXT:
        return f"`{before}` -> `{after}`"
    start = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(after))
    start = max(0, start - LONGEST_TEXT // 2)
    dots = "..." if start else ""
    return f"`{dots}{before[start : start + LONGEST_TEXT]}` -> `{dots}{after[start : start + LONGEST_TEXT]}`"
