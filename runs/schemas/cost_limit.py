"""Cost limit: the work that a schema can cause, bounded before anything is validated with it.

Each value of an answer is visited by a number of subschemas. Branches multiply it (``anyOf`` in ``anyOf``, two ``$ref``
to the same place), and recursion multiplies it again at each level of the answer. The largest number over all levels is
the schema's *looks*; looks times the size of the answer bounds the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ledger.exact_json import MAX_DEPTH as MAX_ANSWER_DEPTH
from runs.schemas import keywords
from runs.schemas.traversal import collect_subschemas, iter_subschemas, join_pointer, resolve_reference

_IN_OBJECTS = frozenset({"properties", "patternProperties", "additionalProperties", "propertyNames"})
# One of these applies to a given member; all others apply together.
_EXCLUSIVE = frozenset({"properties", "additionalProperties", "prefixItems", "items"})
_HERE = keywords.HERE_ONE | keywords.HERE_MANY | keywords.HERE_NAMED
#: The members, or entries, that no schema of the object or list names.
_OTHERS = None
#: Sums that are kept for the members of one level of the answer. Where a schema has more, its members count as one.
_MAX_SUMS = 20_000


@dataclass(frozen=True)
class SchemaCost:
    """The cost of one value: ``looks`` of subschemas, ``patterns`` matched, ``chain`` of subschemas for the same value."""

    looks: int
    patterns: int
    chain: int


class Circular(Exception):
    """A schema that refers back to itself without descending into the answer, so that validation would never end."""

    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


@dataclass
class _Below:
    """The subschemas of the members of an object or the entries of a list."""

    by_name: dict[str | int | None, str] = field(default_factory=dict)
    of_all: list[str] = field(default_factory=list)


@dataclass
class _Node:
    own_looks: int
    own_patterns: int
    here: list[str] = field(default_factory=list)
    below: dict[str, _Below] = field(default_factory=dict)  # "object", "list"


def compute_cost(root: Any) -> SchemaCost:
    """Return the weight of a schema that passed the meta-schema. Raises ``Circular``."""
    nodes = {pointer: _node(pointer, schema) for pointer, schema in collect_subschemas(root).items()}
    order, chain = _inner_first(nodes)
    return SchemaCost(
        looks=_most(nodes, order, lambda node: node.own_looks, keywords.MAX_LOOKS),
        patterns=_most(nodes, order, lambda node: node.own_patterns, keywords.MAX_PATTERN_STEPS),
        chain=chain,
    )


def _node(pointer: str, schema: Any) -> _Node:
    if not isinstance(schema, dict):
        return _Node(own_looks=1, own_patterns=0)
    # Measured: eight property names, or eight compared structures, cost about as much as one schema.
    names = len(schema.get("properties", ())) + len(schema.get("required", ()))
    structures = sum(isinstance(option, dict | list) for option in schema.get("enum", ()))
    patterns = len(schema.get("patternProperties", ())) + ("pattern" in schema)
    node = _Node(own_looks=1 + (names + structures) // 8 + patterns, own_patterns=patterns)
    target = resolve_reference(schema["$ref"]) if "$ref" in schema else None
    if target is not None:
        node.here.append(target)
    for keyword, name, _ in iter_subschemas(schema):
        inner = join_pointer(pointer, keyword) if name is None else join_pointer(pointer, keyword, name)
        if keyword in _HERE:
            node.here.append(inner)
        elif keyword != "$defs":
            below = node.below.setdefault("object" if keyword in _IN_OBJECTS else "list", _Below())
            if keyword in _EXCLUSIVE:
                below.by_name[_OTHERS if name is None else name] = inner
            else:
                below.of_all.append(inner)
    return node


def _inner_first(nodes: dict[str, _Node]) -> tuple[list[str], int]:
    """Return the pointers in an order in which a schema follows those that it applies to the same value, and the
    longest chain.
    """
    order: list[str] = []
    chain: dict[str, int] = {}
    entered: set[str] = set()
    waiting = list(nodes)
    while waiting:
        pointer = waiting[-1]
        if pointer in chain:
            waiting.pop()
            continue
        open_uses = [used for used in nodes[pointer].here if used in nodes and used not in chain]
        if not open_uses:
            waiting.pop()
            chain[pointer] = 1 + max((chain[used] for used in nodes[pointer].here if used in chain), default=0)
            order.append(pointer)
            continue
        if pointer in entered:
            raise Circular(pointer)
        entered.add(pointer)
        waiting.extend(open_uses)
    return order, max(chain.values())


def _most(nodes: dict[str, _Node], order: list[str], own: Callable[[_Node], int], limit: int) -> int:
    """Return the largest sum of ``own`` over the schemas that apply to one value, at any level of an answer."""
    above: dict[str, int] = {}
    most = 0
    for _ in range(MAX_ANSWER_DEPTH + 1):
        level = _level(nodes, order, above) if above else _first_level(nodes, order, own)
        level = {pointer: min(sums, limit + 1) for pointer, sums in level.items()}
        most = max(most, level[""])
        if level == above or most > limit:
            break
        above = level
    return most


def _first_level(nodes: dict[str, _Node], order: list[str], own: Callable[[_Node], int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for pointer in order:
        node = nodes[pointer]
        sums[pointer] = own(node) + sum(sums[used] for used in node.here if used in sums)
    return sums


def _level(nodes: dict[str, _Node], order: list[str], above: dict[str, int]) -> dict[str, int]:
    """Return the sums one level deeper, for objects and lists separately, because no value is both."""
    by_kind = [_sums_below(kind, nodes, order, above) for kind in ("object", "list")]
    return {pointer: max(sums[pointer] for sums in by_kind) for pointer in order}


def _sums_below(kind: str, nodes: dict[str, _Node], order: list[str], above: dict[str, int]) -> dict[str, int]:
    """Return for each schema the largest sum over one member. Branches that descend into different members do not add up."""
    by_name: dict[str, dict[str | int | None, int]] = {}
    of_all: dict[str, int] = {}
    left = _MAX_SUMS
    for pointer in order:
        node = nodes[pointer]
        below = node.below.get(kind, _Below())
        parts = [by_name[used] for used in node.here if used in by_name]
        parts.append({name: above[inner] for name, inner in below.by_name.items()})
        names = {name for part in parts for name in part}
        left -= len(names)
        if left > 0:
            by_name[pointer] = {name: sum(part.get(name, part.get(_OTHERS, 0)) for part in parts) for name in names}
        else:
            by_name[pointer] = {_OTHERS: sum(max(part.values(), default=0) for part in parts)}
        of_all[pointer] = sum(of_all[used] for used in node.here if used in of_all) + sum(
            above[inner] for inner in below.of_all
        )
    return {pointer: max(by_name[pointer].values(), default=0) + of_all[pointer] for pointer in order}
