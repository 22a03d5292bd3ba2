"""Batches: chains and groups of jobs.

Guide: `docs/guides/chains.md`.
"""
