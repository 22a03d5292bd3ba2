"""How many processes a worker gives to isolated jobs."""

import os


def most_processes(slots: int, given: int | None = None) -> int:
    """Return the number for so many slots. `given`: that of `runjobs --isolated`."""
    cores = os.cpu_count() or 1
    return min(slots, cores if given is None else given)
