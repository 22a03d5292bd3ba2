"""Schedules: jobs that are enqueued again and again.

Guide: `docs/guides/schedules.md`.
"""
