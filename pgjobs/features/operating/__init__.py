"""Operating: see what is going on, find jobs and act on them; who may in the admin.

Guides: `docs/guides/monitoring.md`, `docs/guides/dead_letters.md`.
"""
