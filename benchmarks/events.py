"""Measure events: `python -m benchmarks.events [figure ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are real
`manage.py runjobs` processes. Exits with 1 if a figure misses its goal.
"""

import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from benchmarks.figures import figure, main, report, start_worker

HANDLERS = 3


@figure
def publishing(number: int = 1_000, rounds: int = 5) -> None:
    """Compare publishing to three handlers with one plain enqueue, alternately."""
    from django.db import transaction

    from benchmarks.events_tasks import plain
    from pgjobs import enqueue, publish

    ways = {
        "enqueue": lambda number: enqueue(plain, number),
        "publish": lambda number: publish("benchmark.cost", {"number": number}),
    }
    for where in ("in a transaction", "with its own commit"):
        pairs = []
        for _ in range(rounds):
            with transaction.atomic() if "in a" in where else nullcontext():
                pairs.append([median_ms(way, number) for way in ways.values()])
        for name, column in zip(ways, zip(*pairs, strict=True), strict=True):
            report(f"{name} {where}, median", statistics.median(column), "ms")
        quotient = statistics.median(b / a for a, b in pairs)
        what = f"publish with {HANDLERS} handlers / plain enqueue, {where}"
        report(what, quotient, "times", 2)
    forget()


def median_ms(way, number: int) -> float:
    taken = []
    for each in range(number):
        begun = time.perf_counter()
        way(each)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1e3


@figure
def killing(number: int = 200, seconds: float = 40) -> None:
    """Deliver events by two workers, of which one is killed each second, alternately.

    For so many seconds: the jobs of the dead are rescued by a worker that lives longer
    than a heartbeat and a half.
    """
    from django.db import transaction

    from pgjobs import publish
    from pgjobs.models import Event, Job, Worker

    with tempfile.NamedTemporaryFile("r") as notes:
        with transaction.atomic():
            for _ in range(number):
                publish("killed", {"path": notes.name})
        begun = time.monotonic()
        workers = [start_worker(), start_worker()]
        kills = 0
        while Event.objects.pending().exists():
            assert time.monotonic() - begun < 600, "still not done after 600 s"
            time.sleep(1)
            if time.monotonic() - begun > seconds:
                continue
            victim = workers[kills % 2]
            if not Worker.objects.filter(pid=victim.pid).exists():
                continue  # a busy machine takes longer to start it
            victim.kill()  # SIGKILL
            victim.wait()
            workers[kills % 2] = start_worker()
            kills += 1
        report("time until all is delivered", time.monotonic() - begun, "s")
        for worker in workers:
            worker.terminate()
            worker.wait()
        runs = [line.split() for line in Path(notes.name).read_text().splitlines()]
    report("workers killed by kill -9", kills, "")
    finished = {
        (str(event), task): at.timestamp()
        for event, task, at in Job.objects.filter(status="SUCCESSFUL").values_list(
            "delivery__event", "task", "finished_at"
        )
    }
    deliveries = number * HANDLERS
    report("deliveries that did not succeed", deliveries - len(finished), "", 1)
    executions = Counter((event, task) for event, task, _ in runs)
    again = sum(executions.values()) - len(executions)
    report("executions that a kill cut short, and so came again", again, "")
    late = [1 for event, task, at in runs if float(at) > finished[event, task]]
    report("handlers that had succeeded and ran again", len(late), "", 1)
    forget()


def forget() -> None:
    from pgjobs.models import Event, Job

    Job.objects.all().delete()
    Event.objects.all().delete()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.events_tasks"))
