"""ASGI entry point of `manage.py web`: time limits for request bodies, and fair sharing of the threads."""

from __future__ import annotations

import os
import signal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reviewqueue.settings")
os.environ.setdefault("REVIEWQUEUE_PROCESS", "web")

from django.conf import settings

from reviewqueue.wsgi import application as wsgi_application  # must come first: it loads the installed apps

from reviewqueue.operations import processes  # isort: skip
from reviewqueue.api.problems import render_transport_error  # isort: skip
from reviewqueue.serving.asgi_bridge import BoundedApplication  # isort: skip
from reviewqueue.serving.request_bodies import BodyLimits  # isort: skip
from reviewqueue.serving.shutdown import IGNORE_NEW_CONNECTIONS, ignore_new_connections  # isort: skip

# Granian's workers outlive a parent that is killed, and would keep the port.
processes.stop_with_parent()
signal.signal(IGNORE_NEW_CONNECTIONS, lambda *_: ignore_new_connections())

application = BoundedApplication(
    wsgi=wsgi_application,
    threads=settings.WEB_THREADS,
    long_polls=settings.LONG_POLLS,
    limits=BodyLimits(seconds=settings.REQUEST_BODY_SECONDS, rate=settings.REQUEST_BODY_RATE),
    whole_body=max(1024 * 1024, settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
    render_error=render_transport_error,
)
