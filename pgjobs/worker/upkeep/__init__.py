"""Upkeep: what a worker does for all jobs, now and then."""
