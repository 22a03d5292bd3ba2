"""Events: what a transaction publishes, and the jobs that handle it.

Guide: `docs/guides/events.md`.
"""
