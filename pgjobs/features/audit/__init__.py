"""Audit: the page of what people did, with filters, links and export.

Guide: `docs/admin.md`.
"""
