"""Tasks with all that the tables hold: keys, links, events, schedules, transactions."""

import time
from datetime import timedelta

from pgjobs import schedule, subscribe, task


@task
def work(number: int) -> int:
    time.sleep(0.01)
    return number


@task(lock="door {number}")
def in_order(number: int):
    time.sleep(0.01)


@task(limit_key="few", max_running=2)
def few(number: int):
    time.sleep(0.01)


@task(atomic=True)
def settle(number: int):
    work.enqueue(number)


@subscribe("upgrade.*")
@task
def handle(number: int):
    pass


@schedule(every=timedelta(seconds=1))
@task
def tick():
    pass
