"""Asks a backend of `django.tasks` whether it does what Django's documentation says.

A plugin of pytest (`-p django_tasks_conformance.plugin`) and a command (`python -m
django_tasks_conformance`). It stands beside the package, and imports nothing of it:
any backend can be asked.

Guide: `docs/guides/conformance.md`.
"""
