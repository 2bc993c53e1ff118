"""Forms generated from JSON Schema, for answers, and from the arguments of a call, for editing it.

``build_form`` or ``build_edit_form`` builds the form, ``forms/_form.html`` renders it, ``parse_submission`` parses it. The
rules are in docs/schemas.md: the form sends what it shows, an unchanged field sends exactly the value it showed, and types
never change. Nothing here uses the database or decides whether an answer is accepted.
"""

from __future__ import annotations

from reviewqueue.pages.schema_forms.builder import build_edit_form, build_form
from reviewqueue.pages.schema_forms.fields import Alternatives, Field, Group, Option, Rows
from reviewqueue.pages.schema_forms.form_parser import SubmittedRows, parse_submission, pressed_row_button
from reviewqueue.pages.schema_forms.rendered_form import Form, Submission

__all__ = [
    "Alternatives",
    "Field",
    "Form",
    "Group",
    "Option",
    "Rows",
    "Submission",
    "SubmittedRows",
    "build_edit_form",
    "build_form",
    "parse_submission",
    "pressed_row_button",
]
