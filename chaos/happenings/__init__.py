"""All kinds of faults; to import this makes them known."""

from . import connections, crowd, data, processes, starts, upkeep  # noqa: F401
