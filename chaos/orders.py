"""What producers order: one function a kind, each in the producer's transaction."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import NamedTuple

from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from chaos.project import tasks
from pgjobs import chain, enqueue, enqueue_many, group, publish, results

KEYS = [f"key-{number}" for number in range(6)]
KEPT: list[Model] = []  # instances of jobs, as they were enqueued
MOST_KEPT = 5


class Order(NamedTuple):
    kind: str
    number: int  # of marks
    place: Callable[[list[str], Random], list[int]]  # returns the ids of the jobs


ORDERS: list[Order] = []


def order(number: int = 1, weight: int = 1):
    """Register a kind of order with so many marks, drawn as often as its weight."""

    def register(place):
        ORDERS.extend([Order(place.__name__, number, place)] * weight)
        return place

    return register


def ids(jobs) -> list[int]:
    return [job.pk for job in jobs if job is not None]


def short(random: Random) -> float:
    """Return a duration: most jobs are short, some long enough to be met by a fault."""
    return random.choice([0.0, 0.01, 0.05, 0.3, 1.5])


@order(weight=3)
def plain(marks, random):
    return ids([enqueue(tasks.work, marks[0], short(random))])


@order(number=4)
def several(marks, random):
    bound = [tasks.work.bind(mark, short(random)) for mark in marks]
    return ids(enqueue_many(bound))


@order(number=4, weight=2)
def brief(marks, random):
    """Enqueue jobs whose successes go, one of which another job comes after."""
    alone, beside, before, after = marks
    first = enqueue(tasks.brief, before, short(random))
    last = enqueue(tasks.work.using(after=[first]), after)
    bound = [tasks.brief.bind(mark, short(random)) for mark in (alone, beside)]
    return ids([first, last, *enqueue_many(bound)])


@order(number=12, weight=2)
def together(marks, random):
    """Enqueue jobs that share calls, sometimes with a bad one among them."""
    seconds = short(random) / 3  # a call with a bad one takes several times as long
    bad = random.choice([*marks, *[None] * len(marks)])
    bound = [
        tasks.together.bind(mark=mark, seconds=seconds, is_poison=mark == bad)
        for mark in marks
    ]
    return ids(enqueue_many(bound))


@order(weight=3)
def atomic(marks, random):
    return ids([enqueue(tasks.settle, marks[0], short(random))])


@order()
def long(marks, random):
    """Let a job run for longer than a lease."""
    return ids([enqueue(tasks.work, marks[0], 8.0)])


@order()
def asynchronous(marks, random):
    return ids([enqueue(tasks.work_async, marks[0])])


@order()
def later(marks, random):
    delay = timedelta(seconds=random.uniform(0.2, 3))
    return ids([enqueue(tasks.work.using(run_after=delay), marks[0])])


@order()
def least(marks, random):
    return ids([enqueue(tasks.patient, marks[0])])


@order()
def failing_once(marks, random):
    return ids([enqueue(tasks.flaky, marks[0])])


@order(number=3, weight=2)
def ordered(marks, random):
    key = "ordered " + random.choice(KEYS)
    jobs = [tasks.in_order.bind(mark, key, short(random) / 2) for mark in marks]
    return ids(enqueue_many(jobs))


@order(number=15)
def line(marks, random):
    """Let a line flow: each end makes the next job free, which the end may claim."""
    key = "line " + random.choice(KEYS)
    in_line = tasks.in_order.using(queue_name="lines")
    return ids(enqueue_many([in_line.bind(mark, key) for mark in marks]))


@order(number=40)
def swift(marks, random):
    """Enqueue so many short jobs that some wait in a worker that prefetches."""
    return ids(enqueue_many([tasks.swift.bind(mark) for mark in marks]))


@order(number=4)
def paced(marks, random):
    key = random.choice(KEYS)
    return ids(enqueue_many([tasks.paced.bind(mark, key) for mark in marks]))


@order(number=4)
def even(marks, random):
    key = "even " + random.choice(KEYS)
    return ids(enqueue_many([tasks.evenly.bind(mark, key) for mark in marks]))


@order(weight=2)
def mixed_rates(marks, random):
    """Let few jobs wait for much longer than the others of their key have to."""
    task = tasks.rare if random.random() < 0.04 else tasks.paced
    return ids([enqueue(task, marks[0], "mixed " + random.choice(KEYS[:3]))])


@order(weight=2)
def mixed_limits(marks, random):
    """Let few jobs need a key for themselves of which the others leave something."""
    key = "mixed " + random.choice(KEYS[:2])
    if random.random() < 0.04:
        return ids([enqueue(tasks.strict, marks[0], key)])
    return ids([enqueue(tasks.lax, marks[0], key, short(random))])


@order()
def pools(marks, random):
    return ids([enqueue(tasks.pool, marks[0])])


@order()
def followed(marks, random):
    return ids([enqueue(tasks.leader, marks[0])])


@order(number=3)
def batched(marks, random):
    """Let a batch go wrong at once, and end some seconds later."""
    quits, works, concludes = marks
    batch = group([tasks.quitter.bind(quits), tasks.work.bind(works, 3.0)])
    enqueue(chain(batch, tasks.conclude.bind(concludes)))
    return []  # a batch is no job


@order(weight=2)
def kept_instance(marks, random):
    """Enqueue a job, and save the instances of former ones as they were then."""
    for job in KEPT[:-MOST_KEPT]:
        KEPT.remove(job)
        with suppress(DatabaseError), transaction.atomic():
            # What save() of a Job refuses the database refuses as well.
            Model.save(job, force_update=True)
    job = enqueue(tasks.work, marks[0], short(random))
    KEPT.append(job)
    return [job.pk]


@order(number=2)
def mutex(marks, random):
    key = "mutex " + random.choice(KEYS)
    return ids(enqueue_many([tasks.alone.bind(m, key, short(random)) for m in marks]))


@order(number=3)
def limited(marks, random):
    key = random.choice(KEYS)
    return ids(enqueue_many([tasks.few.bind(m, key, short(random)) for m in marks]))


@order(number=3)
def narrow_queue(marks, random):
    return ids(enqueue_many([tasks.narrow.bind(m, short(random)) for m in marks]))


@order(number=2)
def weighty(marks, random):
    return ids(enqueue_many([tasks.heavy.bind(m, short(random)) for m in marks]))


@order(weight=2)
def unique(marks, random):
    """Enqueue one of few keys: most of the time another job is in the way."""
    return ids([enqueue(tasks.single, marks[0], random.choice(KEYS), short(random))])


@order()
def steps(marks, random):
    return ids([enqueue(tasks.stepwise, marks[0])])


@order(number=3, weight=2)
def waits(marks, random):
    """Let a job wait for what two others bring, perhaps before it asks."""
    waiting, *answering = marks
    job = enqueue(tasks.waits, waiting)
    event = publish("waits.happened", aggregate_id=waiting)
    tasks.give(waiting, f"first {event.pk}")
    delays = [timedelta(seconds=random.choice([0, 0.3, 1, 2])) for _ in answering]
    others = [
        enqueue(tasks.answers.using(run_after=delay), mark, job.pk, waiting)
        for mark, delay in zip(answering, delays, strict=True)
    ]
    return ids([job, *others])


@order(number=3)
def chained(marks, random):
    links = [tasks.work.bind(mark, short(random) / 4) for mark in marks]
    return ids(enqueue(chain(*links)))


@order(number=3)
def flowing(marks, random):
    """Give a job the results of two others, each short or long."""
    *sources, last = marks
    members = [tasks.gives.bind(mark, short(random)) for mark in sources]
    receives = tasks.receives.bind(last, sources, results)
    _, job = enqueue(chain(group(members), receives))
    return [job.pk]


@order(weight=2)
def event(marks, random):
    publish("chaos.happened", {"mark": marks[0]}, aggregate_id=random.choice(KEYS))
    return []


@order()
def by_function(marks, random):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM pgjobs_enqueue('project.work', "
            "jsonb_build_object('mark', %s::text))",
            [marks[0]],
        )
        return [row[0] for row in cursor.fetchall()]


@order()
def by_insert(marks, random):
    """Insert for a task that only every other release knows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgjobs_job (task, kwargs, max_crashes) VALUES "
            "('project.newcomer', jsonb_build_object('mark', %s::text), 1000) "
            "RETURNING id",
            [marks[0]],
        )
        return [row[0] for row in cursor.fetchall()]


@order()
def rolled_back_in_part(marks, random):
    """Roll back to a savepoint what is never to be seen; keep the rest."""
    kept = enqueue(tasks.work, marks[0])
    try:
        with transaction.atomic():
            enqueue(tasks.work, f"never {marks[0]}")
            raise ValueError
    except ValueError:
        return [kept.pk]


@order(weight=2)
def bystanders(marks, random):
    return ids([enqueue(tasks.bystander, marks[0], short(random))])


@order()
def hostile(marks, random):
    task = random.choice(
        [
            tasks.doomed,
            tasks.leaves,
            tasks.unspeakable,
            tasks.unstorable,
            tasks.endless,
            tasks.stubborn,
            tasks.greedy,
            tasks.disconnects,
        ]
    )
    return ids([enqueue(task, marks[0])])


@order()
def long_atomic(marks, random):
    """Let an atomic job run for longer than a lease."""
    return ids([enqueue(tasks.settle, marks[0], 8.0)])


@order()
def long_failing(marks, random):
    return ids([enqueue(tasks.flaky, marks[0], 8.0)])
