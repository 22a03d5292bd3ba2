"""Measure pgjobs against bare SQL and against its rivals: `python -m benchmarks`."""
