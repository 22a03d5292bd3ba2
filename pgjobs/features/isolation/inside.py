"""The program of a child until its first job: it sets Django up."""

import os
import socket
import traceback
from typing import Any, NoReturn

import django
from django.conf import settings as django_settings

from .frames import Frames
from .mark import Mark


def serve(descriptor: int, mark: int, hello: dict[str, Any]) -> NoReturn:
    """Set Django up, and run jobs until the worker says so, or is gone."""
    frames = Frames(socket.socket(fileno=descriptor))
    taken = Mark(mark)
    os.close(mark)
    try:
        set_up(hello)
        from .slot import Slot  # which needs Django's models

        slot = Slot(frames, taken, hello["database"])
    except BaseException:  # noqa: BLE001  (the worker's log says why)
        frames.send("failed", traceback.format_exc())
        os._exit(1)
    slot.run()


def set_up(hello: dict[str, Any]) -> None:
    """Set Django up, with the databases of the worker: in tests they differ."""
    for alias, values in hello["databases"].items():
        django_settings.DATABASES.setdefault(alias, {}).update(values)
    django.setup()
