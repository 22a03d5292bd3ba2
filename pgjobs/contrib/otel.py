"""Traces and metrics by OpenTelemetry. Needs its packages."""

from ..features.exporters.otel import PgJobsInstrumentor

__all__ = ["PgJobsInstrumentor"]
