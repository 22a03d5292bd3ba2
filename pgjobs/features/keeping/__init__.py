"""Keeping: with `keep="failed"`, a success is deleted unless something needs it.

Guide: `docs/guides/keep.md`.
"""
