"""Laying schemas over one another, so that what several of them ask for becomes one form.

Called by ``kinds`` and ``building``. For showing only: the answer is judged by the schema as it was written.
"""

from __future__ import annotations

from typing import Any


def overlaid(base: Any, over: Any) -> Any:
    """Return what two schemas of one value ask together: members of both, needed by either, other words by the second."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over if isinstance(over, dict) else base
    merged = {**base, **over}
    if "properties" in base and "properties" in over:
        merged["properties"] = {
            **base["properties"],
            **{name: overlaid(base["properties"].get(name), inner) for name, inner in over["properties"].items()},
        }
    if "required" in base and "required" in over:
        merged["required"] = list(dict.fromkeys([*base["required"], *over["required"]]))
    return merged
