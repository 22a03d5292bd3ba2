"""Overrides: what operators change of a task or a key at run time, until they lift it.

Guide: `docs/guides/overrides.md`.
"""
