"""Follow-ups: the job that the end of another one makes.

Guide: `docs/guides/chains.md`.
"""
