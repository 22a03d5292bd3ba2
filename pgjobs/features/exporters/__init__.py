"""Exporters: Prometheus, OpenTelemetry, Sentry.

Guide: `docs/telemetry.md`.
"""
