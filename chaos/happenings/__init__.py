"""All kinds of faults; to import this makes them known."""

from . import connections, data, processes, upkeep  # noqa: F401
