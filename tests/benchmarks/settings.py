"""The product's own settings, and one address more: the plain view that the benchmarks measure beside it."""

from __future__ import annotations

from reviewqueue.settings import *  # noqa: F403  everything else is what people run

ROOT_URLCONF = "tests.benchmarks.urls"
