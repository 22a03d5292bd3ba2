"""Finding the task that a path names.

The path stands in a row. So it is followed only into packages of the project: nothing
that the database contains makes a worker import any other module.
"""

from importlib import import_module

from django.apps import apps
from django.conf import settings as django_settings

from ..tasks.registry import task_modules
from .compat import Task


def find_declared(path: str) -> Task | None:
    """Return the Django task with this path.

    Return None if the worker must not import the module, or finds no such task in it.
    Raises what importing the module raises.
    """
    module_name, _, name = path.rpartition(".")
    if not is_importable(module_name):
        return None
    try:
        found = getattr(import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        if is_part_of(module_name, error.name or ""):
            return None
        raise  # the module is there, and what it imports is not
    return found if isinstance(found, Task) and found.module_path == path else None


def is_importable(module_name: str) -> bool:
    """Whether workers import this module if a row names it."""
    return module_name in task_modules() or module_name.partition(".")[0] in roots()


def roots() -> set[str]:
    """Return the packages of the apps, and the one that the settings stand in."""
    names = [config.name for config in apps.get_app_configs()]
    names.append(django_settings.SETTINGS_MODULE or "")
    return {name.partition(".")[0] for name in names} - {"__main__", ""}


def is_part_of(module_name: str, missing: str) -> bool:
    return f"{module_name}.".startswith(f"{missing}.")
