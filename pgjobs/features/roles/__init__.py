"""Roles of the database: what each kind may do, and nothing more.

Guide: `docs/security.md`.
"""
