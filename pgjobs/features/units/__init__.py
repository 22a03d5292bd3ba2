"""Process units: jobs that share the room of a host.

Guide: `docs/guides/units.md`.
"""
