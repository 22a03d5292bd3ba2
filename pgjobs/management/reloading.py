"""Watches the code for `runjobs --reload`, by Django's own autoreload."""

import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

from django.apps import apps
from django.utils import autoreload


def watch(changed: Callable[[], None]) -> None:
    """Call `changed` whenever code has changed, from a thread of its own."""
    threading.Thread(
        target=watch_on, args=[changed], name="pgjobs-reload", daemon=True
    ).start()


def watch_on(changed: Callable[[], None]) -> None:
    while True:
        reloader = autoreload.get_reloader()
        for directory in own_directories():
            reloader.watch_dir(directory, "**/*.py")
        autoreload.autoreload_started.send(sender=reloader)
        try:
            reloader.run_loop()
        except SystemExit:  # the reloader raises it when a file has changed
            changed()


def own_directories() -> set[Path]:
    """Return the directories of the project's apps.

    They must be watched as a whole, because this process imports little of them.
    """
    installed = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    return {
        path
        for path in (Path(config.path) for config in apps.get_app_configs())
        if not installed & set(path.parents)
    }
