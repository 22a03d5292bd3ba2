"""Standstill: what waits although nothing is in its way, and who keeps it from working.

Guide: `docs/guides/monitoring.md`.
"""
