"""Request serializers of planted requests."""

from __future__ import annotations

from reviewqueue.api.serializers.fields import ChoiceField, ListField, ObjectField, RequestSerializer, TextField
from reviewqueue.review_quality.planted_requests import CATCHING, MAX_FAULT


class PlantRequest(RequestSerializer):
    """A known-bad request of a lead."""

    queue = TextField("Slug of the queue, which you lead.", max_length=60, min_length=1)
    copy_of = TextField(
        "Id of the request to copy; left out: `agent`, `reason`, `call` and `title` are needed.",
        max_length=40,
        default="",
    )
    arguments = ObjectField("Arguments of the call. They must differ from those of the copied request.")
    fault = TextField("What is wrong with it; shown after the decision.", max_length=MAX_FAULT, min_length=1)
    expected = ListField("Verdicts that catch the fault.", ChoiceField("A verdict.", *CATCHING), max_entries=2)
    agent = TextField("Slug of the agent whose request it seems to be.", max_length=60, default="")
    reason = TextField("Reason of the request.", max_length=60, default="")
    call = TextField("Exact name of the call.", max_length=200, default="")
    title = TextField("Title; left out: that of the copied request.", max_length=300, default="")
    message = TextField("Message; left out: that of the copied request.", max_length=20_000, default="")
