"""Operating: find jobs and act on them by commands, and who may do so in the admin.

Guide: `docs/guides/dead_letters.md`.
"""
