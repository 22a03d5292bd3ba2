"""Dependencies: jobs that wait for what other jobs write.

Guide: `docs/guides/dependencies.md`.
"""
