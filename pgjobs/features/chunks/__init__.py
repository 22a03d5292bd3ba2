"""Chunks: one call for many jobs of a task.

Guide: `docs/guides/chunks.md`.
"""
