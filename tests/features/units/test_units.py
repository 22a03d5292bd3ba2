"""Process units: what running jobs take together of their host."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from threading import Barrier

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgjobs import enqueue_many, task
from pgjobs.exceptions import InvalidTask
from pgjobs.features.units.checks import check_process_units
from pgjobs.models import Job, Queue, Worker
from pgjobs.queue.claiming import HostUnits, first_fetch
from pgjobs.queue.recording import Success
from pgjobs.reports.status import overview
from pgjobs.reports.units import described_shortage, units_in_use
from tests import tasks
from tests.actors import Hand, execute, hours, session
from tests.operators import text_of
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.queue.test_statements import blocks_read_by_a_claim
from tests.worker.test_prefetching import check_that_it_is_left

pytestmark = shared_queue

TOTAL = 8_000
HERE = HostUnits("here", TOTAL)
INSERT = """
INSERT INTO pgjobs_job (task, priority, process_units)
SELECT 'tests.noop', 9, %(units)s FROM generate_series(1, %(number)s)
"""


def nothing():
    pass


def heavy(units: int = 2_000, **options):
    return tasks.noop.using(process_units=units, **options)


def hand(host: str = "here", units: int = TOTAL, **columns) -> Hand:
    return Hand(host, host=host, units=units, **columns)


def claimed_by(worker: Hand, limit: int = 4, units: HostUnits = HERE) -> list[int]:
    return [job.id for job in worker.claim(limit, units=units)]


def enqueued(*units: int, **options) -> list[int]:
    """Enqueue a job for each number of units; return their ids."""
    return [heavy(each, **options).enqueue().pk for each in units]


def enqueued_ago(units: int, seconds: float, **options) -> int:
    job = heavy(units, **options).enqueue()
    ago = job.enqueued_at - timedelta(seconds=seconds)
    Job.objects.filter(pk=job.pk).update(enqueued_at=ago)
    return job.pk


# Declaring


def test_task_or_job_says_what_it_takes():
    load = task(process_units=2_000)(nothing)
    assert load.enqueue().process_units == 2_000
    assert load.using(process_units=3_000).enqueue().process_units == 3_000
    assert load.using(unique=True).enqueue().process_units == 2_000
    assert list(Job.objects.values_list("process_units", flat=True)) == [
        2_000,
        3_000,
        2_000,
    ]
    assert tasks.noop.enqueue().process_units is None


@pytest.mark.parametrize("units", [0, -1, 1.5, "2000", True, 10**15 + 1])
def test_wrong_number_of_units_is_refused(units):
    with pytest.raises(InvalidTask, match="process_units must be a whole number"):
        heavy(units)


def test_database_refuses_a_job_that_takes_nothing():
    job = heavy().enqueue()
    with pytest.raises(IntegrityError, match="process_units must"):
        Job.objects.filter(pk=job.pk).update(process_units=0)


@pytest.mark.parametrize("value", ["0", "-1", "8GB", "1.5", str(10**15 + 1)])
def test_command_refuses_a_wrong_total(value):
    with pytest.raises(CommandError, match="whole number between 1 and"):
        call_command("runjobs", "--drain", f"--units={value}")


def test_check_warns_of_a_task_that_takes_more_than_there_is(settings):
    huge = task(process_units=9_000)(nothing)
    assert check_process_units() == []
    settings.PGJOBS = {"PROCESS_UNITS": TOTAL}
    (warning,) = check_process_units()
    assert warning.obj is huge
    assert "process_units=9000" in warning.msg


# Claiming


def test_claims_fill_the_host_and_no_more():
    ids = enqueued(*[3_000] * 5)
    brought = hand().record_and_claim(limit=5, units=HERE)
    assert [job.id for job in brought.jobs] == ids[:2]
    assert brought.met_locked  # so it fetches again


def test_lighter_jobs_pass_one_that_does_not_fit():
    worker = hand()
    first = enqueued(7_000)
    assert claimed_by(worker) == first
    heavy_one, *light = enqueued(2_000, 600, 300)
    light.append(tasks.noop.using(priority=-5).enqueue().pk)  # takes 1
    assert claimed_by(worker) == light
    assert Job.objects.get(pk=heavy_one).status == "READY"


def test_light_job_behind_those_that_do_not_fit_together_is_claimed_at_the_next_fetch():
    ids = enqueued(5_000, 5_000, 100)
    worker = hand()
    brought = worker.record_and_claim(limit=3, units=HERE)
    assert [job.id for job in brought.jobs] == ids[:1]
    assert brought.met_locked
    assert claimed_by(worker) == ids[2:]


def test_job_that_another_transaction_has_locked_takes_no_units():
    locked, *ids = enqueued(5_000, 5_000, 3_000, 100)
    with session() as other:
        other.begin()
        other.execute(
            "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", {"id": locked}
        )
        assert claimed_by(hand()) == ids[:2]


def test_jobs_of_other_workers_of_the_host_count_and_those_of_other_hosts_do_not():
    enqueued(6_000)
    assert len(claimed_by(hand())) == 1
    (second,) = enqueued(6_000)
    assert claimed_by(hand()) == []
    elsewhere = hand("there")
    assert claimed_by(elsewhere, units=HostUnits("there", TOTAL)) == [second]
    assert units_in_use("default") == {"here": 6_000, "there": 6_000}


def test_units_of_an_ending_job_are_free_in_the_pass_that_records_it():
    worker = hand()
    enqueued(TOTAL, TOTAL)
    (first,) = worker.claim(1, units=HERE)
    assert claimed_by(worker) == []
    success = Success(first.id, first.lease_token, None)
    brought = worker.record_and_claim(success, limit=1, units=HERE)
    assert brought.recorded == {first.lease_token}
    assert len(brought.jobs) == 1


def test_worker_without_total_counts_no_units():
    enqueued(*[TOTAL] * 3)
    assert len(Hand().claim(3)) == 3


@pytest.mark.parametrize("units", [HERE, None])
def test_jobs_of_the_largest_number_of_units_stop_no_worker(units):
    execute(INSERT, {"units": 9_223_372_036_854_775_807, "number": 3})
    light = tasks.noop.enqueue()
    worker, fetch = hand(), first_fetch(10, by_queue=True)
    with transaction.atomic():
        execute("SET LOCAL statement_timeout = '60s'")
        jobs = worker.record_and_claim(limit=10, is_idle=True, units=units, fetch=fetch)
    assert light.pk in [job.id for job in jobs.jobs]


def test_job_that_never_fits_does_not_keep_others_nor_workers_waiting():
    enqueued(TOTAL + 1)
    (fitting,) = enqueued(100)
    brought = hand().record_and_claim(limit=2, units=HERE)
    assert [job.id for job in brought.jobs] == [fitting]
    assert not brought.met_locked


def test_units_are_not_counted_while_another_worker_of_the_host_counts():
    enqueued(100)
    worker = hand()
    with session() as other:
        other.begin()
        other.execute("SELECT * FROM pgjobs_host_room('here', 1, 1)")
        brought = worker.record_and_claim(limit=1, units=HERE)
        assert brought.jobs == []
        assert brought.met_locked
        assert claimed_by(hand("there"), units=HostUnits("there", TOTAL)) != []
        other.commit()
    enqueued(100)
    assert len(claimed_by(worker)) == 1


def test_worker_without_free_slot_leaves_the_count_to_others():
    worker = hand()
    with session() as other:
        other.begin()
        other.execute("SELECT 1")
        enqueued(100)
        connection = connections["default"]
        connection.set_autocommit(False)
        try:
            worker.record_and_claim(limit=0, units=HERE)
            ((free, *_),) = other.execute(
                "SELECT * FROM pgjobs_host_room('here', 10, 1)"
            )
        finally:
            connection.rollback()
            connection.set_autocommit(True)
    assert free == 10


def test_claims_at_the_same_time_never_take_more_than_there_is():
    enqueue_many([heavy(3_000).bind() for _ in range(60)])
    workers = [hand() for _ in range(4)]
    barrier = Barrier(len(workers), timeout=60)

    def claim(worker: Hand) -> list:
        try:
            barrier.wait(60)
            return worker.claim(4, units=HERE)
        finally:
            connections.close_all()

    for _ in range(10):
        with ThreadPoolExecutor(len(workers)) as pool:
            claimed = [job for jobs in pool.map(claim, workers) for job in jobs]
        assert 1 <= len(claimed) <= 2
        Job.objects.running().succeed()


# Light jobs behind heavy ones


def test_light_job_is_claimed_from_behind_thousands_that_do_not_fit():
    """However many these are, the fetch reads no more."""
    fetch = first_fetch(4, by_queue=True)
    enqueued(7_000)
    worker = hand()
    assert len(claimed_by(worker)) == 1
    enqueued(2_000, 8_000)
    light = [*enqueued(100), tasks.noop.using(priority=-5).enqueue().pk]
    few = blocks_read_by_a_claim(fetch, units=HERE)
    for units in (1_001, TOTAL + 1):
        execute(INSERT, {"units": units, "number": 10_000})
    assert blocks_read_by_a_claim(fetch, units=HERE) <= few + 120
    assert claimed_by(worker) == light


READY_JOBS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.none() | st.sampled_from([1, 2, 3, 5, 8, 13]),
        st.integers(-1, 1),
    ),
    min_size=1,
    max_size=20,
)


@given(
    rows=READY_JOBS,
    total=st.integers(1, 14),
    limit=st.integers(1, 4),
    queues=st.none() | st.lists(st.sampled_from("abc"), unique=True, min_size=1),
    paused=st.lists(st.sampled_from("abc"), max_size=1),
)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_worker_claims_the_first_that_fits_and_overlooks_none(
    rows, total, limit, queues, paused
):
    for model in (Job, Worker, Queue):
        model.objects.all().delete()
    for name in paused:
        Queue.objects.create(name=name).pause()
    enqueue_many(
        [
            tasks.noop.using(
                queue_name=name, process_units=units, priority=priority
            ).bind()
            for name, units, priority in rows
        ]
    )
    worker, units, free = hand(units=total), HostUnits("here", total), total
    served = Job.objects.ready().exclude(queue_name__in=paused)
    if queues is not None:
        served = served.filter(queue_name__in=queues)
    while fitting := first_that_fits(served, free):
        fetch, jobs, has_more = first_fetch(limit, by_queue=True), [], True
        while has_more and not jobs:
            brought = worker.record_and_claim(
                limit=limit, fetch=fetch, units=units, queues=queues
            )
            jobs, has_more, fetch = brought.jobs, brought.has_more, fetch.further()
        assert [job.id for job in jobs][:1] == [fitting]
        free = total - units_in_use("default")["here"]
    assert free >= 0


def first_that_fits(jobs, free: int) -> int | None:
    """Return the first in claim order of those that take no more than this."""
    for job in jobs.order_by("-priority", "turn"):
        if (job.process_units or 1) <= free:
            return job.pk
    return None


# Patience


def test_room_is_kept_for_a_job_that_has_waited_too_long():
    worker = hand()
    (running,) = enqueued(7_000)
    assert claimed_by(worker) == [running]
    waiting = enqueued_ago(2_000, 61)
    enqueued(100, 100)
    tasks.noop.enqueue()
    brought = worker.record_and_claim(limit=4, units=HERE)
    assert brought.jobs == []
    assert brought.met_locked
    Job.objects.running().succeed()
    assert claimed_by(worker, 1) == [waiting]


def test_jobs_of_higher_priority_still_go_before_one_that_has_waited_too_long():
    worker = hand()
    enqueued(7_000)
    claimed_by(worker)
    enqueued_ago(2_000, 61)
    (urgent,) = enqueued(500, priority=1)
    enqueued(500)
    assert claimed_by(worker) == [urgent]


def test_patience_begins_when_the_job_could_run(settings):
    worker = hand()
    enqueued(7_000)
    claimed_by(worker)
    waiting = enqueued_ago(2_000, 600)
    Job.objects.filter(pk=waiting).update(
        run_after=Job.objects.get(pk=waiting).enqueued_at + timedelta(seconds=590)
    )
    (light,) = enqueued(100)
    assert claimed_by(worker) == [light]
    settings.PGJOBS = {"UNITS_PATIENCE": 5}
    enqueued(100)
    assert claimed_by(worker) == []


@pytest.mark.parametrize("why", ["too heavy", "paused", "limited", "unserved", "dead"])
def test_no_room_is_kept_for_a_job_that_would_not_run_anyway(why):
    worker = hand(queues="" if why == "paused" else "default")
    enqueued(5_000)
    claimed_by(worker)
    name = "default" if why == "too heavy" else "others"
    if why in ("limited", "dead"):
        hand(queues="others").fall_silent(100 if why == "dead" else 0)
    if why == "paused":
        Queue.objects.create(name=name).pause()
    if why == "limited":
        Queue.objects.create(name=name, max_running=1)
        Job.objects.running().update(queue_name=name)
    enqueued_ago(9_000 if why == "too heavy" else 4_000, 61, queue_name=name)
    (light,) = enqueued(100)
    assert claimed_by(worker) == [light]


def test_room_is_kept_for_a_job_that_only_another_worker_of_the_host_serves():
    worker, other = hand(queues="default"), hand(queues="others")
    enqueued(5_000)
    claimed_by(worker)
    enqueued_ago(4_000, 61, queue_name="others")
    enqueued(100)
    assert claimed_by(worker) == []
    other.fall_silent(100)
    assert len(claimed_by(worker)) == 1


# Workers


def test_two_workers_and_a_stream_of_light_jobs_let_a_heavy_one_run(settings):
    settings.PGJOBS = {"UNITS_PATIENCE": 0.2}
    light = tasks.sleep.using(process_units=1_000)
    enqueue_many([light.bind(0.02) for _ in range(40)])
    with running_worker(slots=4, units=4_000), running_worker(slots=4, units=4_000):
        wait_for(lambda: Job.objects.running().exists())
        last = tasks.noop.using(process_units=4_000).enqueue()
        while last.status != "SUCCESSFUL":  # as long as it waits, others come
            if Job.objects.ready().count() < 20:  # no more than slow workers can do
                enqueue_many([light.bind(0.02) for _ in range(4)])
            last.refresh_from_db()
            assert Job.objects.count() < 5_000
        wait_for_all("SUCCESSFUL")
    # A claim that has begun before may end a little later.
    patient_until = last.enqueued_at + timedelta(seconds=0.2 + 1)
    behind = Job.objects.filter(pk__gt=last.pk, started_at__gt=patient_until)
    assert not behind.filter(started_at__lt=last.started_at).exists()


def test_worker_takes_up_what_waited_for_units_that_another_one_freed(tmp_path):
    path = str(tmp_path / "held")
    with (
        running_worker(units=100, queues=("one",)),
        running_worker(units=100, queues=("two",), poll=600),
    ):
        held = tasks.hold.using(process_units=60, queue_name="one").enqueue(path)
        wait_for_status(held, "RUNNING")
        waiting = heavy(60, queue_name="two").enqueue()
        small = heavy(40, queue_name="two").enqueue()
        wait_for_status(small, "SUCCESSFUL")
        waiting.refresh_from_db()
        assert waiting.status == "READY"
        tasks.let_go(path)
        wait_for_status(waiting, "SUCCESSFUL")


def test_killed_worker_gives_its_units_back_with_the_rescue(start_worker, tmp_path):
    path = str(tmp_path / "held")
    quick = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 3}
    victim = start_worker("--units=100", settings=quick)
    held = tasks.hold.using(process_units=100).enqueue(path)
    wait_for(lambda: tasks.lines(path), "it runs")
    start_worker("--units=100", settings=quick)
    waiting = heavy(100, priority=5).enqueue()
    assert units_in_use("default") == {Worker.objects.first().host: 100}
    victim.kill()
    wait_for_status(waiting, "SUCCESSFUL")
    tasks.let_go(path)
    assert wait_for_status(held, "SUCCESSFUL").crashes == 1


def test_jobs_of_a_worker_that_left_take_units_of_each_host_until_their_rescue():
    worker, survivor = hand(), hand("there")
    enqueued(6_000)
    (running,) = claimed_by(worker)
    worker.vanish()
    assert units_in_use("default")["there"] == 6_000
    (waiting,) = enqueued(6_000, priority=5)
    for host in ("here", "there"):
        assert claimed_by(survivor, units=HostUnits(host, TOTAL)) == []
    assert [job.id for job in survivor.rescue()] == [running]
    assert claimed_by(survivor, units=HostUnits("there", TOTAL)) == [waiting]


def test_drain_runs_what_fits_and_says_what_never_will():
    enqueued(9_000, 100)
    tasks.noop.using(process_units=9_000, queue_name="mail").enqueue()
    Queue.objects.create(name="mail").pause()
    out = StringIO()
    call_command("runjobs", "--drain", "--units=8000", "--max-time=20", stdout=out)
    lines = out.getvalue().splitlines()
    assert "4 slots, 8000 process units on this host" in lines[0]
    assert lines[-3:] == [
        "Completed 1 job",
        "Left: 1 ready in paused queues: mail.",
        "Left: 1 ready that take more than 8000 process units.",
    ]


def test_drain_waits_for_what_will_fit_when_another_worker_is_done(tmp_path):
    path = str(tmp_path / "held")
    with running_worker(units=100, queues=("one",)):
        held = tasks.hold.using(process_units=60, queue_name="one").enqueue(path)
        wait_for_status(held, "RUNNING")
        heavy(60, queue_name="two").enqueue()
        with ThreadPoolExecutor(1) as pool:
            drained = pool.submit(drain, units=100, queues=("two",))
            wait_for(lambda: Worker.objects.count() == 2)
            tasks.let_go(path)
            assert drained.result(20).finished == 1


def test_claim_by_hand_minds_the_units_of_its_worker():
    ids = enqueued(5_000, 5_000, 3_000)
    worker = hand().row
    assert [job.pk for job in Job.objects.claim(worker, 4)] == ids[:1]
    assert [job.pk for job in Job.objects.claim(worker, 4)] == ids[2:]


def test_prefetched_jobs_count():
    enqueue_many([heavy(40).bind() for _ in range(4)])
    assert len(claimed_by(hand(), limit=4, units=HostUnits("here", 100))) == 2


# What people see


def test_status_shows_the_units_and_what_can_never_run():
    worker = hand()
    enqueued(6_000)
    claimed_by(worker)
    enqueued(9_000, 9_000, 7_000)
    heavy(9_500, queue_name="mail").enqueue()
    state = overview("default")
    (shown,) = state.workers
    assert (shown.units, shown.units_in_use) == (TOTAL, 6_000)
    assert [each for each in state.problems if "units" in each] == [
        "2 ready jobs in queue default take 9000 process units each, but the workers "
        "there have 8000: they can never run.",
        "1 ready job in queue mail takes 9500 process units, but the workers there "
        "have 8000: it can never run.",
    ]
    out = StringIO()
    call_command("jobstatus", stdout=out)
    assert "6000 of 8000" in out.getvalue()
    with pytest.raises(CommandError, match="9000 process units"):
        call_command("jobstatus", "--check", stdout=out)


def test_job_can_run_if_one_of_its_workers_has_no_total_or_a_larger_one():
    hand(), hand("large", units=10_000)
    enqueued(9_000)
    assert [each for each in overview("default").problems if "units" in each] == []
    Worker.objects.filter(host="large").update(units=None)
    enqueued(90_000)
    assert [each for each in overview("default").problems if "units" in each] == []


def test_words_for_a_job_without_room():
    worker = hand()
    enqueued(6_000)
    claimed_by(worker)
    workers, in_use = [worker.row], units_in_use("default")
    shortages = [
        described_shortage(heavy(units).enqueue(), workers, in_use)
        for units in (2_000, 2_001, 9_000)
    ]
    assert shortages == [
        "",
        "waits for 2001 process units",
        "takes 9000 process units, the workers have 8000: can never run",
    ]
    assert described_shortage(heavy(9_000).enqueue(), [], in_use) == ""


def test_worker_says_once_which_job_will_never_fit(caplog):
    (never,) = enqueued(9_000)
    enqueued(9_001, queue_name="others")
    with (
        caplog.at_level(logging.WARNING, "pgjobs.worker"),
        running_worker(units=TOTAL, queues=("default",)) as loop,
    ):
        for _ in range(3):
            loop.upkeep["too_heavy"].due = loop.upkeep.survey.due = 0
            loop.bell.ring()
            wait_for(lambda: loop.upkeep["too_heavy"].due)
    records = [each for each in caplog.records if "units=" in each.getMessage()]
    assert [each.job_id for each in records] == [never]


def test_scheduled_heavy_jobs_are_no_problem_yet():
    hand()
    heavy(9_000, run_after=hours(1)).enqueue()
    assert [each for each in overview("default").problems if "units" in each] == []


# Pages


@pytest.mark.django_db
def test_pages_show_process_units_and_the_jobs_that_wait_for_them(admin_client):
    worker = Hand("here", units=8_000)
    for units in (6_000, 3_000, 9_000):
        job = tasks.noop.using(process_units=units).enqueue()
    assert len(worker.claim(1, units=HostUnits("here", 8_000))) == 1
    page = text_of(admin_client.get("/admin/pgjobs/job/"))
    assert "waits for 3000 process units" in page
    page = text_of(admin_client.get(f"/admin/pgjobs/job/{job.pk}/change/"))
    assert "takes 9000 process units, the workers have 8000: can never run" in page
    assert "6000 of 8000 in use" in text_of(admin_client.get("/admin/pgjobs/worker/"))


# Prefetching


def test_job_that_takes_units_is_left_to_a_free_slot():
    check_that_it_is_left({"process_units": 2})
