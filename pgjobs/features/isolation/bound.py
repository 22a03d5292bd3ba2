"""How many processes a worker gives to isolated jobs."""

import os

from ...tasks.registry import registry


def most_processes(slots: int, given: int | None = None) -> int:
    """Return the number for so many slots. `given`: that of `runjobs --isolated`.

    Rows may say that they are isolated although no task is so any more: a deploy has
    changed that. Their jobs run in the slots.
    """
    if not any(task.options.isolated for task in registry.all_tasks()):
        return slots
    cores = os.cpu_count() or 1
    return min(slots, cores if given is None else given)
