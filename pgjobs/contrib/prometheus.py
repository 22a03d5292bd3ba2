"""Metrics for Prometheus. Needs the package prometheus-client."""

from ..features.exporters.prometheus import metrics

__all__ = ["metrics"]
