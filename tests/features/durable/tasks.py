"""Tasks that wait, which workers in other processes find."""

import os

from pgjobs import current_job, task
from tests import tasks


@task(waits_for=("order.paid",), backoff=lambda failures: 0)
def waits_and_dies(path: str):
    job = current_job()
    job.step("begin", tasks.write, path, "begun")
    answer = job.wait_for("question", str)
    die_once(path)
    job.step("note", tasks.write, path, answer)
    event = job.wait_for_event("order.paid")
    job.step("end", tasks.write, path, event.payload["note"])


@task(backoff=lambda failures: 0)
def goes_on_and_dies(path: str, where: str, number: int = 0):
    """Die once: before the call, or after it and before the worker has stored it."""
    tasks.write(path, f"begun {number}")
    if where == "before":
        die_once(path)
    try:
        if number == 0:
            current_job().continue_as(path, where, number=1)
    finally:
        die_once(path)


def die_once(path: str) -> None:
    if not os.path.exists(f"{path}.killed"):
        tasks.write(f"{path}.killed", "")
        tasks.kill_own_process.function()
