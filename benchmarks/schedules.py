"""Measure schedules: `python -m benchmarks.schedules [figure ...]`.

Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Workers are real
`manage.py runjobs` processes. Exits with 1 if a figure misses its goal.
"""

import random
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

from benchmarks.figures import (
    count,
    figure,
    listening_workers,
    main,
    report,
    start_worker,
    wait_for,
)

SECOND = timedelta(seconds=1)
AT_FIRST = 4  # ticks: a worker finds a new schedule within two seconds
TICKS = """
SELECT count(*) FROM pgjobs_tick AS tick JOIN pgjobs_schedule AS schedule
    ON schedule.id = tick.schedule_id WHERE schedule.name = 'each second'
"""


@figure
def lateness(number: int = 30) -> None:
    """Measure how late an idle worker fires that polls once a minute."""
    from pgjobs.models import Tick

    worker = start_worker("--poll", "60")
    wait_for(lambda: listening_workers() == 1)
    schedule = each_second()
    wait_for(lambda: count(TICKS, []) >= number + AT_FIRST, 120)
    worker.terminate()
    worker.wait()
    ticks = Tick.objects.filter(schedule=schedule).order_by("time")
    late = sorted(
        (enqueued - time).total_seconds() * 1e3
        for time, enqueued in ticks.values_list("time", "job__enqueued_at")[AT_FIRST:]
    )
    report(f"a fire is late, median of {len(late)}", statistics.median(late), "ms", 100)
    report(f"a fire is late, worst of {len(late)}", late[-1], "ms", 100)
    forget()


@figure
def killing(seconds: int = 120, number: int = 5) -> None:
    """Kill workers at random; see which ticks of a second have one job."""
    from pgjobs.models import Job, Tick

    schedule = each_second()
    workers = [start_worker() for _ in range(number)]
    kills = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.uniform(0.2, 2))
        victim = random.randrange(number)
        workers[victim].kill()  # SIGKILL
        workers[victim].wait()
        workers[victim] = start_worker()
        kills += 1
    type(schedule).objects.filter(pk=schedule.pk).pause()
    last = schedule_of(schedule).next_run_at - SECOND  # the latest that was due
    for worker in workers:
        worker.terminate()
        worker.wait()
    ticks = list(
        Tick.objects.filter(schedule=schedule, job__isnull=False)
        .order_by("time")
        .values_list("time", flat=True)
    )
    due = round((last - schedule.next_run_at) / SECOND) + 1
    report(f"workers of {number} killed by kill -9", kills, "")
    report(f"ticks in {seconds} s", due, "")
    report("ticks without a job", due - len(set(ticks)), "", 1)
    jobs = Job.objects.filter(task="benchmarks.tick").count()
    report("jobs beside one for each tick", abs(jobs - len(set(ticks))), "", 1)
    forget()


@figure
def ten_thousand(seconds: float = 30, number: int = 10_000) -> None:
    """Compare what an idle worker costs with and without schedules that are not due."""
    from django.utils.timezone import now

    from pgjobs.models import Schedule

    without = cost_of_idling(seconds)
    day = timedelta(days=1)
    Schedule.objects.bulk_create(
        Schedule(
            name=f"schedule {each}",
            task="benchmarks.tick",
            every=day,
            next_run_at=now() + day,
        )
        for each in range(number)
    )
    with_them = cost_of_idling(seconds)
    for name, before, after in zip(
        ("the worker", "its session"), without, with_them, strict=True
    ):
        report(f"idle, {name}: part of a core, no schedules", before, "%")
        what = f"idle, {name}: part of a core, {number:,} schedules"
        report(what, after, "%")
        report(f"idle, {name}: what they cost", after - before, "%", 0.2)
    forget()


def cost_of_idling(seconds: float) -> list[float]:
    """Return percents of a core: of the worker, and of the session of its loop."""
    worker = start_worker()
    wait_for(lambda: listening_workers() == 1)
    time.sleep(10)  # for what it does first, and for autovacuum
    session = count(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s "
        "AND datname = current_database()",
        ["pgjobs:loop:%"],
    )
    before = [used_by(worker.pid), used_by(session)]
    time.sleep(seconds)
    after = [used_by(worker.pid), used_by(session)]
    worker.terminate()
    worker.wait()
    return [100 * (b - a) / seconds for a, b in zip(before, after, strict=True)]


def used_by(pid: int) -> float:
    """Return the processor seconds of a process, as exactly as the kernel counts."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def each_second():
    """Return a schedule that is due each second, whatever is still running."""
    from pgjobs.base.queue_database import database_time
    from pgjobs.models import Schedule

    schedule = Schedule(
        name="each second",
        task="benchmarks.tick",
        every=SECOND,
        overlap="allow",
        catch_up="all",
    )
    schedule.plan_again(database_time("default"))
    schedule.save()
    return schedule


def schedule_of(schedule):
    return type(schedule).objects.get(pk=schedule.pk)


def forget() -> None:
    from pgjobs.models import Job, Schedule

    Schedule.objects.filter(task="benchmarks.tick").delete()
    Job.objects.all().delete()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], "benchmarks.schedules_tasks"))
