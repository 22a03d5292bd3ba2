"""The half of a benchmark that runs in the environment of the measured system.

    python -m benchmarks.adapter SYSTEM setup     make its tables
    python -m benchmarks.adapter SYSTEM produce   obey the driver: a line in, a line out
    python -m benchmarks.adapter SYSTEM work      be a worker until SIGTERM

SYSTEM is a module of benchmarks/systems. It offers what the system has to do, in the
way its documentation recommends for speed:

    setup()                      make the tables; not for those on Redis
    enqueue(task, number)        one job, durable when this returns
    enqueue_many(task, numbers)  many jobs at once, if the system knows how
    unfinished()                 how many jobs are not yet recorded as done
    hold(path)                   one that must be killed; those with processes
    fill(status, number)         as many rows of that status, by SQL; pgjobs, bare SQL
    work()                       the worker; may replace the process

`task` is "noop" or "stamp" (benchmarks/tasks.py), `number` its argument. What varies
within a system is in OPTIONS. Only the standard library may be imported here.
"""

import importlib
import json
import os
import random
import sys
import time
from types import ModuleType

OPTIONS = json.loads(os.environ.get("BENCHMARK_OPTIONS", "{}"))
STAMPS = os.environ.get("BENCHMARK_STAMPS", os.devnull)


class Producer:
    """Does what the driver orders and times it."""

    def __init__(self, system: ModuleType):
        self.system = system

    def enqueue_singly(self, number: int) -> float:
        """Enqueue jobs one by one; return the seconds that it took."""
        begun = time.perf_counter()
        for each in range(number):
            self.system.enqueue("noop", each)
        return time.perf_counter() - begun

    def enqueue_at_once(self, number: int) -> float:
        begun = time.perf_counter()
        self.system.enqueue_many("noop", range(number))
        return time.perf_counter() - begun

    def enqueue_steadily(
        self, first: int, number: int, rate: float, batch: int = 1
    ) -> list[tuple[int, float, float]]:
        """Enqueue jobs that note their start, `rate` a second whatever becomes of them.

        Returns the number of each with the times before and after its enqueue.
        """
        begun, enqueued = time.monotonic(), []
        for each in range(first, first + number, batch):
            due = begun + (each - first) / rate
            time.sleep(max(due - time.monotonic(), 0))
            before = time.monotonic()
            if batch == 1:
                self.system.enqueue("stamp", each)
            else:
                self.system.enqueue_many("stamp", range(each, each + batch))
            after = time.monotonic()
            enqueued += [(one, before, after) for one in range(each, each + batch)]
        return enqueued

    def enqueue_one_by_one(
        self, first: int, number: int
    ) -> list[tuple[int, float, float]]:
        """Enqueue each job a moment after the one before has started.

        Up to 10 ms later: so it meets the worker in all that it does between two
        jobs, and a wake-up that is lost is not made up for by the next job's.
        """
        moment, enqueued = random.Random(first), []
        for each in range(first, first + number):
            time.sleep(moment.uniform(0, 0.01))
            size = os.stat(STAMPS).st_size
            before = time.monotonic()
            self.system.enqueue("stamp", each)
            enqueued.append((each, before, time.monotonic()))
            while os.stat(STAMPS).st_size == size:
                time.sleep(0.0005)
        return enqueued

    def hold(self, path: str) -> None:
        self.system.hold(path)

    def unfinished(self) -> int:
        return self.system.unfinished()

    def fill(self, status: str, number: int) -> None:
        self.system.fill(status, number)

    def obey(self) -> None:
        """Take orders from the standard input until it ends."""
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a system prints must not pass for an answer
        for line in sys.stdin:
            act, arguments = json.loads(line)
            answer = getattr(self, act)(**arguments)
            print(json.dumps(answer), file=answers, flush=True)


def main(name: str, role: str) -> None:
    system = importlib.import_module(f"benchmarks.systems.{name}")
    if role == "produce":
        Producer(system).obey()
    else:
        getattr(system, role)()


if __name__ == "__main__":
    main(*sys.argv[1:])
