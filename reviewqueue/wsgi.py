"""WSGI entry point. `manage.py web` serves it through `reviewqueue.asgi`."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reviewqueue.settings")
os.environ.setdefault("REVIEWQUEUE_PROCESS", "web")

application = get_wsgi_application()
