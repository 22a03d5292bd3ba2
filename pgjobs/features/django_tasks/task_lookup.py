"""Finding the task that a path names.

The path stands in a row. So it is followed only into modules that this process has
imported already: nothing that the database contains makes it import another one. A
worker imports the modules that declare tasks when it starts, whatever the rows say.
"""

import logging
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from django.apps import apps
from django.conf import settings as django_settings

from ...tasks.registry import task_modules
from .compat import Task

logger = logging.getLogger("pgjobs.tasks")

NAMES_DJANGO = re.compile(
    rb"^\s*(?:from|import)\s+django(?:_tasks\b|\.tasks\b|\s+import\b.*\btasks\b)", re.M
)
# A project may import its decorator from a module of its own.
TAKES_TASK = re.compile(
    rb"^from\s+([\w.]+)\s+import\s+(?:\([^)]*\btask\b|[^\n(]*\btask\b)", re.M
)
OWN = __name__.partition(".")[0]
DECLARES = re.compile(rb"^@(?:\w+\.)*task\b", re.M)
# What no worker needs: a script may do anything as soon as it is imported.
LEFT_OUT = re.compile(r"(?:tests?|migrations|management|conftest|test_.*|.*_test|__.*)")


def find_declared(path: str) -> Task | None:
    """Return the Django task with this path, if its module is imported already."""
    module_name, _, name = path.rpartition(".")
    module = sys.modules.get(module_name) if is_importable(module_name) else None
    # No getattr(): a module may have a function that imports what is asked for.
    return declared_as(path, vars(module).get(name)) if module else None


def declared_as(path: str, found: object) -> Task | None:
    return found if isinstance(found, Task) and found.module_path == path else None


def import_declared(path: str) -> Task | None:
    """Return the Django task with this path, which stands in no row.

    Raises what importing its module raises.
    """
    module_name, _, name = path.rpartition(".")
    if not is_importable(module_name):
        return None
    try:
        return declared_as(path, getattr(import_module(module_name), name, None))
    except ModuleNotFoundError as error:
        if is_part_of(module_name, error.name or ""):
            return None
        raise  # the module is there, and what it imports is not


@cache
def import_declaring_modules() -> None:
    """Import the modules of the project that declare tasks of Django's, once.

    A module that cannot be imported is logged, and its tasks stay unknown.
    """
    for name in sorted(declaring_modules()):
        try:
            import_module(name)
        except (Exception, SystemExit):  # from the project's module
            logger.exception("The module %s, which has tasks, cannot be loaded", name)


def declared_paths() -> Iterator[str]:
    """Yield the paths of the tasks in the imported modules of the project."""
    packages = roots()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages or name in task_modules():
            for each in list(vars(module).values()):
                if isinstance(each, Task) and each.func.__module__ == name:
                    yield each.module_path


def declaring_modules() -> Iterator[str]:
    """Yield the modules of the project whose source declares tasks of Django's."""
    for package, folder in folders().items():
        for file in modules_in(folder):
            parts = (package, *file.relative_to(folder).with_suffix("").parts)
            if declares_tasks(file.read_bytes()):
                yield ".".join(parts).removesuffix(".__init__")


def declares_tasks(source: bytes) -> bool:
    """Whether a module declares tasks of Django's, with whatever `@task` it imports."""
    if not DECLARES.search(source):
        return False
    if NAMES_DJANGO.search(source):
        return True
    packages = {each.decode().partition(".")[0] for each in TAKES_TASK.findall(source)}
    return not packages.isdisjoint({"", *roots()} - {OWN})


def modules_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a package and of the packages in it."""
    for each in sorted(folder.iterdir()):
        if each.name == "__init__.py":
            yield each
        elif LEFT_OUT.fullmatch(each.stem):
            continue
        elif each.suffix == ".py":
            yield each
        elif (each / "__init__.py").is_file():
            yield from modules_in(each)


def folders() -> dict[str, Path]:
    """Return the folders of the apps and of the settings, by the package.

    The folder of a package that another one contains is left out.
    """
    paths = {config.name: Path(config.path) for config in apps.get_app_configs()}
    package = (django_settings.SETTINGS_MODULE or "").rpartition(".")[0]
    if path := getattr(sys.modules.get(package), "__path__", None):
        paths[package] = Path(next(iter(path)))
    inner = {
        name for name in paths if any(name.startswith(f"{each}.") for each in paths)
    }
    return {name: folder for name, folder in paths.items() if name not in inner}


def is_importable(module_name: str) -> bool:
    """Whether a task of this module can be found by its path."""
    return module_name in task_modules() or module_name.partition(".")[0] in roots()


def roots() -> set[str]:
    """Return the packages of the apps, and the one that the settings stand in."""
    names = [config.name for config in apps.get_app_configs()]
    names.append(django_settings.SETTINGS_MODULE or "")
    return {name.partition(".")[0] for name in names} - {"__main__", ""}


def is_part_of(module_name: str, missing: str) -> bool:
    return f"{module_name}.".startswith(f"{missing}.")
