"""The public status: how a job does, as JSON for the pages of the project.

Guide: `docs/guides/status_address.md`.
"""
