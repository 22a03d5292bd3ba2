"""Steps: parts of a job that are done once per life, whatever happens to it.

Guide: `docs/guides/once.md`.
"""
