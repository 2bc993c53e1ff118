"""JSON Schemas of answers: ``check_schema`` refuses unusable schemas, ``validate`` checks an answer,
``translate`` brings an older schema to 2020-12.

Nothing here uses the network or runs without a bound: the cost of a schema and an answer is computed first.
docs/schemas.md documents it for authors of schemas.
"""

from __future__ import annotations

from runs.schemas.schema_checks import check_schema
from runs.schemas.translation import translate
from runs.schemas.validator import validate

__all__ = ["check_schema", "translate", "validate"]
