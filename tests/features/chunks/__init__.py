"""Calls for many jobs of a task."""
