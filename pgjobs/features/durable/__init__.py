"""Durable tasks: tasks that sleep, and wait for answers, events and other jobs.

Guide: `docs/guides/durable.md`.
"""
