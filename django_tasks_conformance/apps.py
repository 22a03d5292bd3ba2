"""The app that a project adds, so that its workers note what they do."""

from django.apps import AppConfig


class ConformanceConfig(AppConfig):
    name = "django_tasks_conformance"

    def ready(self) -> None:
        from .listening import listen  # the backend may import models

        listen()
