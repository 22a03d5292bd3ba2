"""The HTTP server of a worker: probes, nudges and metrics.

Guide: `docs/guides/monitoring.md`.
"""
