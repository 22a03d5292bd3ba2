"""What is imported when Django starts."""

from contextlib import suppress

from django.conf import settings
from django.utils.module_loading import import_string


def import_backends() -> None:
    """Let this process know the tasks of `django.tasks` that run here.

    Django imports a backend with the first task, which a worker may need before.
    """
    for params in getattr(settings, "TASKS", {}).values():
        path = params.get("BACKEND", "")
        if not path.startswith(("django.", "django_tasks.")):
            with suppress(ImportError):  # Django reports it
                import_string(path)


ON_READY = (import_backends,)
