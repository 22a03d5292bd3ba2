"""Orders to workers: to be quiet, to go on, to stop; from any machine.

Guide: `docs/guides/production.md`.
"""
