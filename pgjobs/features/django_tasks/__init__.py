"""The backend of `django.tasks`: Django's own `@task` with pgjobs behind it.

No module of pgjobs imports the backend, so that projects without `TASKS` pay nothing
for it, and Django 5.2 does not need the package django-tasks.

Guide: `docs/django_tasks.md`.
"""
