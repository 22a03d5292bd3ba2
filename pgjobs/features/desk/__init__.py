"""The desk: the overview, figures and error groups.

Guide: `docs/admin.md`.
"""
