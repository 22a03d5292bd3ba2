"""Results: what a job returns becomes an argument of the jobs after it.

Guide: `docs/guides/results.md`.
"""
