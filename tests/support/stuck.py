"""Imported as a task module: the worker's main thread gets stuck in C code."""

import ctypes
import os

from pgjobs.worker.claimer import Claimer
from tests.tasks import write


def get_stuck(*arguments, **named):
    write(os.environ["STUCK"], "stuck")
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)  # for ever; no signal interrupts it


Claimer.run = get_stuck
