"""Forms made from JSON Schema, for answers, and from a call's arguments, for editing it.

``build_form`` or ``build_edit_form`` makes the form, ``forms/_form.html`` draws it, ``read_submission`` reads it back. The
rules (docs/schemas.md, "The form a reviewer sees"): what is shown is what is sent, a field left alone sends exactly the
value it showed, and types never change. Nothing here touches the database or decides whether an answer counts.
"""

from __future__ import annotations

from reviewqueue.pages.schema_forms.builder import build_edit_form, build_form
from reviewqueue.pages.schema_forms.fields import ABSENT, Absent, Alternatives, Field, Group, Option, Rows
from reviewqueue.pages.schema_forms.form_parser import read_submission
from reviewqueue.pages.schema_forms.rendered_form import Form, Reading
from reviewqueue.pages.schema_forms.row_counts import Shape, change_of

__all__ = [
    "ABSENT",
    "Absent",
    "Alternatives",
    "Field",
    "Form",
    "Group",
    "Option",
    "Reading",
    "Rows",
    "Shape",
    "build_edit_form",
    "build_form",
    "change_of",
    "read_submission",
]
