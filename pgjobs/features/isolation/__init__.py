"""Isolation: tasks whose body runs in a process of its own.

Guide: `docs/guides/isolation.md`.
"""
