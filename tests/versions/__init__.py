"""Versions of a project's code, whose workers run side by side."""
