"""Addresses of pages made for browser tests alone: hostile words and values in the frame every page has."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path

from reviewqueue.urls import urlpatterns as product
from tests.pages.hostile import BLANKS, HIDDEN, MARKUP

ARGUMENTS = {
    **dict(zip(MARKUP, MARKUP, strict=True)),
    "hidden": "".join(f"a{char}" for char in [*HIDDEN, *BLANKS]),
    "endless": "x" * 3_000,
    "deep": {"lines": [{"part": "Hook block", "amount": "00123"}] * 40},
}
PAGE = """
{% extends "base.html" %}{% load agent_text icons times %}
{% block main %}<div class="wrap stack">
<h1>Sample</h1>
<p id="amount">{{ "184000.00"|num }}</p><p id="text">{% exact "00123" %}</p>
<label>Note <input class="box" id="note"></label>
<div id="row"><button class="btn" hx-post="/sample/whole" hx-target="#row">Send to a session that ended</button></div>
<div id="other"><button class="btn" hx-post="/sample/refused" hx-target="#other">Send too late</button></div>
<div class="holder"><section class="happen"><header><h2>What will happen</h2></header>
{% include "_call_arguments.html" with arguments=arguments %}</section></div>
{% for text in texts %}
{% include "_agent_text.html" with text=text heading=text id=forloop.counter|stringformat:"fence-%d" %}
{% endfor %}
</div>{% endblock %}
"""


@login_not_required
def sample(request: HttpRequest) -> HttpResponse:
    page = engines["django"].from_string(PAGE)
    return HttpResponse(page.render({"arguments": ARGUMENTS, "texts": MARKUP}, request))


@login_not_required
def whole(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<!doctype html><title>Sign in</title><h1>Sign in</h1>")


@login_not_required
def refused(request: HttpRequest) -> HttpResponse:
    return HttpResponse('<p role="alert">Ines was first.</p>', status=409)


urlpatterns = [
    path("sample/", sample),
    path("sample/whole", whole),
    path("sample/refused", refused),
    *product,
]
