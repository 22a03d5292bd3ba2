"""Jobs that move to another database.

Guide: `docs/guides/databases.md`.
"""
