"""Forms made from JSON Schema, for answers, and from a call's arguments, for editing it.

``build_form`` or ``build_edit_form`` makes the form, ``forms/_form.html`` draws it, ``read_submission`` reads it back. The
rules (docs/schemas.md, "The form a reviewer sees"): what is shown is what is sent, a field left alone sends exactly the
value it showed, and types never change. Nothing here touches the database or decides whether an answer counts.
"""

from __future__ import annotations

from reviewqueue.pages.forms.building import build_edit_form, build_form
from reviewqueue.pages.forms.fields import ABSENT, Absent, Alternatives, Field, Group, Option, Rows
from reviewqueue.pages.forms.reading import read_submission
from reviewqueue.pages.forms.shapes import Shape, change_of
from reviewqueue.pages.forms.showing import Form, Reading

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
