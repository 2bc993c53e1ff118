"""The schemas of answers: refused when they cannot be used, and the judge of every answer.

``check_schema`` is called when a wait is opened; ``validate`` by the gateway before any lock, and by the pages' forms.
Nothing here reaches for the network or runs without a bound: what a schema and an answer can cost is weighed first.
docs/schemas.md is the agreement with those who write schemas.
"""

from __future__ import annotations

from runs.schemas.schema_checks import check_schema
from runs.schemas.validator import validate

__all__ = ["check_schema", "validate"]
