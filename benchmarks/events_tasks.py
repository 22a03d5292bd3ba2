"""The tasks of benchmarks/events.py."""

import os
import time

from pgjobs import current_event, subscribe, task

SECONDS = 0.25  # that a handler takes
# Each kill -9 is a crash of whatever runs then, and none of them is a handler's fault.
CRASHES = 100


@task(name="benchmarks.plain")
def plain(number: int):
    pass


@subscribe("benchmark.cost")
@task(name="benchmarks.first")
def first(number: int):
    pass


@subscribe("benchmark.cost")
@task(name="benchmarks.second")
def second(number: int):
    pass


@subscribe("benchmark.*")
@task(name="benchmarks.third")
def third(number: int):
    pass


@subscribe("killed")
@task(name="benchmarks.one", max_crashes=CRASHES)
def one(path: str):
    log_and_work(path, "one")


@subscribe("killed")
@task(name="benchmarks.two", max_crashes=CRASHES)
def two(path: str):
    log_and_work(path, "two")


@subscribe("killed")
@task(name="benchmarks.three", max_crashes=CRASHES)
def three(path: str):
    log_and_work(path, "three")


def log_and_work(path: str, name: str) -> None:
    with open(path, "a") as file:
        line = f"{current_event().id} benchmarks.{name} {time.time()}\n"
        os.write(file.fileno(), line.encode())
    time.sleep(SECONDS)
