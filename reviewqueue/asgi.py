"""The same application for ASGI servers. WSGI is the measured choice (`manage.py web`); this is for other hosts."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reviewqueue.settings")
os.environ.setdefault("REVIEWQUEUE_PROCESS", "web")

application = get_asgi_application()
