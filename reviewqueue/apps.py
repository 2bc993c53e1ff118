from __future__ import annotations

from importlib.util import find_spec

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ledger.trace_context import use_tracer


class ReviewQueueConfig(AppConfig):
    name = "reviewqueue"
    label = "reviewqueue"
    verbose_name = "Review queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Record traces, if the settings say so."""
        if not settings.TRACING:
            return
        if not all(map(find_spec, ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"))):
            raise ImproperlyConfigured("TRACING needs OpenTelemetry. Install it with: pip install 'reviewqueue[otel]'")
        from reviewqueue.serving import tracing

        use_tracer(tracing.OpenTelemetryTracer(tracing.export_by_otlp))
