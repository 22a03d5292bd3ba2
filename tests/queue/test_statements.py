"""What the worker asks of the database: how often, and how much of it is read."""

import re
import threading
from collections import Counter, defaultdict
from datetime import timedelta
from math import inf, isinf

import pytest
from psycopg import _queries
from psycopg.errors import LockNotAvailable

from pgjobs import enqueue, enqueue_many
from pgjobs.base.connections import connect
from pgjobs.models import Job, Queue, Worker
from pgjobs.queue import claiming, recording
from pgjobs.queue.claiming import Fetch, Range, claim_statement, first_fetch
from pgjobs.queue.recording import Success
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.upkeep import LOCK_CLASS
from pgjobs.sql import statement
from pgjobs.worker.connections.connection import (
    HOLD_LOCK,
    ONE_PLAN,
    numbered,
)
from pgjobs.worker.fetch_rule import ranges_from
from pgjobs.worker.loop import Loop
from pgjobs.worker.session import STATEMENT_SECONDS, TIMELINE
from pgjobs.worker.upkeep.chore import Chore, Timer
from tests import plans, tasks
from tests.actors import (
    SESSION_WAITS,
    Hand,
    Session,
    execute,
    in_thread,
    session,
)
from tests.plans import plan_for_old_rows, scans, scans_of_whole_indexes
from tests.processes import (
    STATEMENTS,
    SURVEY,
    drain,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_pass,
    wait_for_status,
)

pytestmark = shared_queue

ALL = {"only": None, "skipped": "{}"}  # due jobs
OLD = {"age": 3_600.0, "limit": 100, **OLDEST._asdict()}


@pytest.fixture
def calm(settings, monkeypatch):
    """Heartbeats and maintenance stay out of the count."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    monkeypatch.setattr(
        Timer, "is_due", lambda own, now: now >= own.due and isinf(own.interval)
    )
    # Nor is the sleep of the loop any shorter for them.
    next_event = Chore.next_event.fget
    monkeypatch.setattr(
        Chore,
        "next_event",
        property(lambda own: next_event(own) if isinf(own.interval) else inf),
    )


def test_driver_parses_no_text_of_the_worker(own_connection, monkeypatch):
    """It would parse one of more than 4,096 characters at each execution."""
    own = own_connection
    monkeypatch.setattr(_queries, "_split_query", refuse_to_parse)
    assert claiming.record_and_claim(own, 1, limit=2, prefetched=10).jobs == []
    parsed = numbered.cache_info().misses
    assert claiming.record_and_claim(own, 1, limit=2, prefetched=10).jobs == []
    assert numbered.cache_info().misses == parsed


def refuse_to_parse(*_):
    raise AssertionError("the driver parses a text")


def test_percent_signs_and_repeated_parameters_arrive(own_connection):
    own = own_connection
    query = "SELECT %(b)s::text, %(a)s::int, %(b)s::text LIKE 'x%%', 7 %% 4"
    assert own.execute(query, {"a": 1, "b": "xy"}) == [("xy", 1, True, 3)]
    assert own.execute("SELECT 7 % 4") == [(3,)]


@pytest.mark.usefixtures("eager")
@pytest.mark.usefixtures("calm")
def test_successes_are_recorded_and_the_next_jobs_claimed_in_one_statement():
    enqueue_many([tasks.noop.bind() for _ in range(400)])
    with statements_of_workers() as executed:
        assert drain(slots=4, prefetch=12).finished == 400
    counted = Counter(each.split(maxsplit=1)[1].strip() for each in executed)
    assert counted.pop("record_and_claim") <= 100
    assert counted.pop(HOLD_LOCK.strip()) == 2  # the loop's and the heartbeat's
    assert counted.pop("cancel_requests", 0) <= 1  # once it listens
    # As it starts, once it listens, for what overrides let go, before it ends.
    assert counted.pop("admit") <= 4
    assert counted.pop("record_successes", 0) <= 2  # by those, in the same round trip
    once = {"register_worker", "heartbeat", "promote", "leave"}
    once |= {"make_queues", TIMELINE.strip()}
    counted.pop("end_waits", None)  # of a feature, if something is due
    of_features = {
        "add_figures",
        "end_overrides",
        "let_go",
        "begin_walk",
        "note_pauses",
    }
    once |= of_features & {*STATEMENTS.values()}
    assert counted == dict.fromkeys(once, 1)


def keep_outcomes_from(loop: Loop, monkeypatch) -> threading.Event:
    """Let the loop, whatever wakes it, take no outcome before the event is set."""
    may_take, take = threading.Event(), loop.executor.take_outcomes
    monkeypatch.setattr(
        loop.executor, "take_outcomes", lambda: take() if may_take.is_set() else []
    )
    return may_take


@pytest.mark.usefixtures("calm")
def test_jobs_that_end_together_share_a_statement(tmp_path, settings, monkeypatch):
    # Nothing else wakes the worker meanwhile.
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    path = str(tmp_path / "held")
    enqueue_many([tasks.hold.bind(path) for _ in range(8)])
    with running_worker(slots=8, poll=600) as loop:
        wait_for(lambda: len(tasks.lines(path)) == 8, "all run")
        may_take = keep_outcomes_from(loop, monkeypatch)
        tasks.let_go(path)
        wait_for(lambda: len(loop.executor.outcomes) == 8, "all have ended")
        with statements_of_workers() as executed:
            may_take.set()
            wait_for_all("SUCCESSFUL")
    assert (
        executed.count("loop record_and_claim") <= 2
    )  # the other finds the queue empty


@pytest.mark.usefixtures("eager")
@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(("stops", "at_once"), [(False, [6, 4, 2]), (True, [12])])
def test_half_of_the_outcomes_is_recorded_at_once_while_there_is_more_to_claim(
    stops, at_once, tmp_path, monkeypatch
):
    """The slots need something to run during the round trip of a pass."""
    recorded = []
    original = claiming.record_and_claim

    def counting(*args, successes, **named):
        recorded.append(len(successes))
        return original(*args, successes=successes, **named)

    monkeypatch.setattr(claiming, "record_and_claim", counting)
    path = str(tmp_path / "held")
    enqueue_many([tasks.hold.bind(path) for _ in range(12)])
    with running_worker(slots=4, prefetch=8, poll=600) as loop:
        wait_for(lambda: len(tasks.lines(path)) == 4, "all slots are taken")
        may_take = keep_outcomes_from(loop, monkeypatch)
        tasks.let_go(path)
        wait_for(lambda: len(loop.executor.outcomes) == 12, "all have ended")
        if stops:
            loop.stop()
        may_take.set()
        wait_for_all("SUCCESSFUL")
    assert [number for number in recorded if number] == at_once


def test_idle_worker_asks_little():
    with running_worker(poll=600, queues=("none",)) as loop:
        listener = loop.listener
        wait_for(lambda: listener.connection and not listener.is_new, "it listens")
        wait_for_pass(loop)
        wait_for(lambda: listener.bell.alarm)
        with statements_of_workers() as executed:
            beat, chores = loop.heartbeat.interval, loop.upkeep.survey.interval
            loop.heartbeat.beat()
            for _ in range(3):
                loop.upkeep.survey.due = 0
                loop.bell.ring()
                wait_for(lambda: loop.upkeep.survey.due)
    assert set(executed) <= {
        "heartbeat heartbeat",
        "loop chores",
        "loop prune",
        "loop prune_batches",
        "loop prune_left_rows",
        "loop references",
        "loop forget_rates",
        "loop prune_events",
        "loop prune_audit",
        "loop prune_figures",
    }
    assert beat / chores <= 2.5, "rescues for each heartbeat"


@pytest.mark.listening
def test_heartbeat_is_planned_once():
    with running_worker(poll=600, queues=("none",)) as loop:
        for _ in range(5):
            loop.heartbeat.beat()
        plans = loop.heartbeat.connection.execute(
            """
            SELECT generic_plans, custom_plans FROM pg_prepared_statements
            WHERE statement LIKE '-- A worker''s sign of life.%'
            """
        )
    ((generic, custom),) = plans
    assert generic >= 4
    assert custom == 0


@pytest.mark.usefixtures("calm")
def test_failed_attempt_costs_one_statement_more_and_no_fetch_too_many():
    job = enqueue(tasks.fail_with, "no")
    with running_worker(poll=600) as loop:
        wait_for_status(job, "FAILED")
        wait_for(lambda: loop.bell.alarm)
        with statements_of_workers() as executed:
            job.retry()
            wait_for(lambda: Job.objects.get(pk=job.pk).life == 2)
            wait_for_status(job, "FAILED")
            wait_for(lambda: loop.bell.alarm)
    counted = Counter(executed)
    assert counted[f"loop {next(iter(recording.parts()))}"] == 1
    assert counted["loop record_and_claim"] <= 4


# What a claim reads


def blocks_read_by_a_claim(fetch: Fetch | None = None, **served) -> int:
    """Return how many blocks a claim of 4 jobs touches; nothing stays claimed."""
    query, parameters = claim_statement(1, limit=4, fetch=fetch, is_idle=True, **served)
    return blocks_read_by(query, parameters)


def blocks_read_by(query: str, parameters: dict) -> int:
    """Return how many blocks a worker's statement touches; nothing of it stays."""
    with connect("default", "test", "explain") as own:
        own.execute(ONE_PLAN)
        own.execute("VACUUM ANALYZE pgjobs_job")
        for _ in range(2):  # the first one also reads the catalogue
            with own.transaction(force_rollback=True):
                explained = own.execute(
                    "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query, parameters
                ).fetchone()[0]
    top = explained[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("promote", {"limit": 100, **ALL}),
        ("prune", OLD | {"status": "SUCCESSFUL", **ALL}),
    ],
)
def test_statement_with_nothing_to_do_reads_no_more_beside_thousands_of_jobs(
    name, parameters
):
    assert blocks_read_by(statement(name), parameters) < 40
    later = tasks.noop.using(run_after=timedelta(days=1))
    enqueue_many([later.bind() for _ in range(3_000)])
    enqueue_many([tasks.noop.bind() for _ in range(3_000)])
    Job.objects.ready().succeed()
    assert blocks_read_by(statement(name), parameters) < 40


def test_claim_reads_no_more_when_thousands_are_finished_or_scheduled():
    later = tasks.noop.using(run_after=timedelta(days=1))
    enqueue_many([tasks.noop.bind() for _ in range(20)])
    later.enqueue()
    before = blocks_read_by_a_claim()
    low = tasks.noop.using(priority=-1, queue_name="archive")
    enqueue_many([low.bind() for _ in range(3_000)])
    Job.objects.filter(queue_name="archive").succeed()
    enqueue_many([later.bind() for _ in range(3_000)])
    after = blocks_read_by_a_claim()
    assert after <= before + 20


def test_what_keeps_a_job_from_being_pruned_is_asked_of_this_job():
    """A join with all such rows would take minutes for thousands of each."""
    parameters = OLD | {"status": "FAILED", **ALL}
    assert "Anti Join" not in plan_for_old_rows(statement("prune"), parameters)


def test_claim_reads_no_more_of_a_long_queue_than_of_a_short_one():
    enqueue_many([tasks.noop.bind() for _ in range(20)])
    before = blocks_read_by_a_claim()
    enqueue_many([tasks.noop.bind() for _ in range(5_000)])
    after = blocks_read_by_a_claim()
    assert after <= before + 20


def test_claim_reads_no_more_beside_thousands_of_queues_that_workers_know():
    enqueue_many([tasks.noop.bind() for _ in range(20)])
    before = blocks_read_by_a_claim()
    Queue.objects.bulk_create(Queue(name=f"queue-{n}") for n in range(3_000))
    assert blocks_read_by_a_claim() <= before + 10


def run_under_a_snapshot(number: int, held: Session) -> int:
    """Have so many jobs claimed and recorded, and their past kept; return the turn."""
    held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    held.execute("SELECT")
    enqueue_many([tasks.noop.bind() for _ in range(number)])
    hand = Hand()
    claimed = hand.record_and_claim(limit=number).jobs
    hand.record_and_claim(*(Success(job.id, job.lease_token, None) for job in claimed))
    return max(job.turn for job in claimed)


def test_fetch_at_cursors_does_not_walk_over_what_a_long_transaction_keeps():
    enqueue_many([tasks.noop.bind() for _ in range(4)])
    before = blocks_read_by_a_claim()
    Job.objects.all().delete()
    with session() as held:
        mark = run_under_a_snapshot(4_000, held)
        enqueue_many([tasks.noop.bind() for _ in range(4)])
        everywhere = blocks_read_by_a_claim()
        at_cursors = blocks_read_by_a_claim(
            Fetch(28, ranges=list(ranges_from({0: mark})))
        )
    assert everywhere > before + 60
    assert at_cursors - before < (everywhere - before) / 2


def blocks_read_behind_a_snapshot(text: str, worker_id: int, **parameters) -> int:
    with connect("default", "test", "explain") as own:
        own.execute(ONE_PLAN)
        ((explained,),) = own.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}",
            {"worker_id": worker_id, **ALL, **parameters},
        )
    return explained[0]["Plan"]["Shared Hit Blocks"]


@pytest.mark.parametrize(
    "text", [statement("rescue"), SURVEY], ids=["rescue", "survey"]
)
def test_rescue_does_not_walk_over_what_living_workers_have_run(text):
    with session() as held:
        run_under_a_snapshot(5_000, held)
        rescuer = Hand("rescuer").id
        found = {"lock_class": LOCK_CLASS, "limit": 1_000}
        found |= {"with_ready": False, "leads_for": 1.0}
        assert blocks_read_behind_a_snapshot(text, rescuer, **found) < 100


def test_requests_to_stop_are_not_sought_among_what_the_worker_has_run():
    with session() as held:
        run_under_a_snapshot(5_000, held)
        worker, running = Worker.objects.get().pk, {"held": [1, 2, 3]}
        text = statement("cancel_requests")
        assert blocks_read_behind_a_snapshot(text, worker, **running) < 50


def test_promotion_does_not_walk_over_what_is_not_due():
    later = tasks.noop.using(run_after=timedelta(days=1))
    enqueue_many([later.bind() for _ in range(2_000)])
    with connect("default", "test", "explain") as own:
        own.execute(ONE_PLAN)
        ((explained,),) = own.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("promote"),
            {"limit": 1_000, **ALL},
        )
    assert explained[0]["Plan"]["Shared Hit Blocks"] < 20


# What the planner makes of it

JIT_ABOVE_COST = 100_000  # PostgreSQL's default


@pytest.fixture
def own_connection():
    with plans.own_connection() as own:
        yield own


@pytest.mark.parametrize(
    "fetch", [first_fetch(2), Fetch(4, ranges=[Range(0, 0, 1)]), first_fetch(2, True)]
)
@pytest.mark.parametrize("claims", [True, False])
def test_claim_can_be_prepared_together_with_others(own_connection, fetch, claims):
    """PostgreSQL takes the types from the parameters, whatever their values."""
    claim = claim_statement(1, limit=2, fetch=fetch, prefetched=2, claims=claims)
    own_connection.together([("SELECT 1", {}), claim])


def test_loop_has_nothing_compiled(own_connection):
    """Compiling a plan takes a hundred times as long as running it."""
    assert own_connection.execute("SHOW jit") == [("off",)]


def small(name: str, **parameters) -> tuple[str, dict]:
    return statement(name), parameters


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        *(
            claim_statement(1, [Success(1, 1, None)], 2, first_fetch(2, by_queue))
            for by_queue in (False, True)
        ),
        small(
            next(iter(recording.parts())),
            outcomes="[]",
            unknown_task_grace=1,
            worker_name="",
            version="",
        ),
        small("rescue", lock_class=LOCK_CLASS, limit=100, **ALL),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) else "",
)
def test_plan_that_was_made_for_a_small_table_walks_no_index_from_end_to_end(
    own_connection, text, parameters
):
    """A worker that started on an empty queue keeps its plans as the table grows."""
    assert scans_of_whole_indexes(own_connection, text, parameters) == []


@pytest.mark.parametrize(
    ("by_queue", "expected"),
    [
        (False, {"pgjobs_job_in_line": ["priority"], "pgjobs_job_pkey": ["id"] * 2}),
        (
            True,
            {
                "pgjobs_job_in_queue": ["ROW", *["queue_name"] * 2],
                # What locks the jobs is a function.
                "pgjobs_job_pkey": ["id"],
            },
        ),
    ],
)
def test_plan_of_a_claim_that_was_made_for_an_empty_table_uses_the_indexes_in_full(
    own_connection, by_queue, expected
):
    fetch = first_fetch(2, by_queue)
    query, parameters = claim_statement(1, [Success(1, 1, None)], 2, fetch)
    own_connection.execute("VACUUM ANALYZE pgjobs_job")
    ((explained,),) = own_connection.execute(
        f"EXPLAIN (FORMAT JSON) {query}", parameters
    )
    found = defaultdict(list)
    for scan in scans(explained[0]["Plan"]):
        column = re.match(r"\W*(\w*)", scan.get("Index Cond", ""))[1]
        found[scan["Index Name"]].append(column)
    of_jobs = ("pgjobs_job_in_line", "pgjobs_job_in_queue", "pgjobs_job_pkey")
    assert {name: sorted(found[name]) for name in of_jobs if found[name]} == expected


def test_server_ends_a_statement_of_the_loop_before_the_worker_cuts_it(own_connection):
    """A statement that is cut may still commit, and its answer is lost."""
    query = "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'"
    ((milliseconds,),) = own_connection.execute(query)
    assert 0 < milliseconds < 1_000 * STATEMENT_SECONDS


def test_rescue_looks_cheap_even_where_nothing_can_be_set():
    """Behind a pooler it runs with the settings of the server."""
    with connect("default", "test", "explain") as own:
        explained = own.execute(
            "EXPLAIN (FORMAT JSON) " + statement("rescue"),
            {"worker_id": 1, "lock_class": LOCK_CLASS, "limit": 1_000, **ALL},
        ).fetchone()[0]
    assert explained[0]["Plan"]["Total Cost"] < JIT_ABOVE_COST


# What a claim locks and walks over

QUEUE_NAMES = [f"queue-{number:03}" for number in range(100)]


def fill_queues(names: list[str], each: int = 5) -> None:
    enqueue_many(
        [
            tasks.noop.using(queue_name=name).bind()
            for name in names
            for _ in range(each)
        ]
    )


SHORT = first_fetch(4)._replace(scan_limit=200)
FETCHES = [first_fetch(4), SHORT, first_fetch(4, by_queue=True)]


@pytest.mark.parametrize("fetch", FETCHES)
def test_claim_locks_no_more_rows_than_it_takes(fetch):
    """There are many queues, each with more jobs than the claim takes."""
    fill_queues(QUEUE_NAMES)
    with session() as other, session() as free:
        hand = Hand("other", execute=other.execute)
        other.begin()
        claimed = hand.record_and_claim(limit=4, fetch=fetch)
        assert len(claimed.jobs) == 4
        free.begin()
        left = free.execute("SELECT id FROM pgjobs_job FOR UPDATE SKIP LOCKED")
        other.rollback()
    assert len(left) == 5 * len(QUEUE_NAMES) - 4


@pytest.mark.parametrize("fetch", FETCHES)
def test_claim_takes_the_best_jobs_of_all_queues_in_order(fetch):
    fill_queues(QUEUE_NAMES)
    urgent = tasks.noop.using(queue_name="queue-099", priority=1).enqueue()
    late = tasks.noop.using(queue_name="another", priority=1).enqueue()
    jobs = Hand().record_and_claim(limit=4, fetch=fetch).jobs
    assert [job.id for job in jobs][:2] == [urgent.pk, late.pk]
    assert [job.queue_name for job in jobs][2:] == ["queue-000"] * 2


@pytest.mark.parametrize("fetch", FETCHES)
def test_claim_skips_what_others_have_locked_and_says_that_there_is_more(fetch):
    fill_queues(QUEUE_NAMES)
    hand = Hand()
    with session() as other:
        other.begin()
        first = other.execute(
            "SELECT id FROM pgjobs_job ORDER BY turn LIMIT 200 FOR UPDATE"
        )
        taken, fetches = [], 0
        while len(taken) < 4 and fetches < 10:
            claimed = hand.record_and_claim(limit=4 - len(taken), fetch=fetch)
            taken += [job.id for job in claimed.jobs]
            assert claimed.has_more or len(taken) == 4
            fetch, fetches = fetch.further(), fetches + 1
        assert sorted(taken) == taken
        assert taken[0] == max(id for (id,) in first) + 1


@pytest.mark.parametrize(
    ("lock", "number"), [("FOR NO KEY UPDATE", 0), ("FOR KEY SHARE", 4)]
)
def test_claim_takes_what_others_only_refer_to_and_blames_no_other_queue(lock, number):
    fill_queues(QUEUE_NAMES)
    with session() as other:
        other.begin()
        other.execute(f"SELECT FROM pgjobs_job {lock}")
        claimed = Hand().record_and_claim(limit=4, fetch=SHORT)
    assert len(claimed.jobs) == number
    assert claimed.has_more is (number == 0)
    assert not claimed.is_starved


def test_claim_tries_no_job_that_others_hold_while_there_are_free_ones():
    """Else four workers that prefetch cost the server twice as much for each job."""
    enqueue_many([tasks.noop.bind() for _ in range(210)])
    with session() as rival, plans.own_connection() as own:
        rival.begin()
        Hand("rival", execute=rival.execute).record_and_claim(limit=200)
        for number, tried in ((10, 10), (20, 30)):
            query, parameters = claim_statement(1, limit=number, claims=False)
            ((explained,),) = own.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters
            )
            assert times_locked(explained[0]["Plan"]) == tried


def times_locked(plan: dict) -> int:
    here = plan["Actual Loops"] if plan["Node Type"] == "Tid Scan" else 0
    return here + sum(map(times_locked, plan.get("Plans", ())))


def test_job_that_was_locked_while_an_old_transaction_runs_keeps_its_place():
    first = enqueue(tasks.noop.using(priority=1))
    enqueue_many([tasks.noop.bind() for _ in range(300)])
    with session() as old:
        old.begin()
        old.execute("SELECT pg_current_xact_id()")
        execute(
            "SELECT FROM pgjobs_job WHERE id = %(id)s FOR KEY SHARE", {"id": first.pk}
        )
        (claimed,) = Hand().record_and_claim(limit=1, fetch=first_fetch(1)).jobs
    assert claimed.id == first.pk


def test_worker_that_waits_to_record_holds_no_job_that_an_operator_wants():
    """Otherwise the operator's transaction could be the victim of a deadlock."""
    ran, ready = enqueue_many([tasks.noop.bind() for _ in range(2)])
    lock = "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"
    with session() as own, session() as operator:
        own.execute(ONE_PLAN)
        hand = Hand(execute=own.execute)
        (job,) = hand.claim()
        done = Success(job.id, job.lease_token, "null")
        operator.begin()
        operator.execute(lock, {"id": ran.pk})
        fetch = first_fetch(1)
        with in_thread(hand.record_and_claim, done, limit=1, fetch=fetch) as claim:
            wait_for(lambda: operator.execute(SESSION_WAITS) == [(True,)], "it waits")
            operator.execute(f"{lock} NOWAIT", {"id": ready.pk})
            with pytest.raises(LockNotAvailable):
                claim.result(timeout=60)
        operator.rollback()


def test_claim_blames_other_queues_that_fill_its_list():
    fill_queues(QUEUE_NAMES)
    claimed = Hand().record_and_claim(limit=4, fetch=SHORT, queues=["none"])
    assert claimed.has_more
    assert claimed.is_starved


@pytest.mark.parametrize("fetch", FETCHES)
def test_claim_that_meets_a_job_that_must_run_alone_asks_for_no_longer_fetch(fetch):
    """The worker runs something. Nothing behind that job may be claimed meanwhile."""
    tasks.noop.using(max_crashes=1).enqueue()
    fill_queues(QUEUE_NAMES)
    brought = Hand().record_and_claim(limit=4, fetch=fetch, is_idle=False)
    assert brought.jobs == []
    assert brought.met_last_chance
    assert not brought.has_more


def test_claim_in_claim_order_reads_no_more_of_many_queues_than_of_one():
    fill_queues(QUEUE_NAMES[:1], 1_000)
    before = blocks_read_by_a_claim()
    Job.objects.all().delete()
    fill_queues(QUEUE_NAMES, 10)
    assert blocks_read_by_a_claim() <= before + 20


@pytest.mark.parametrize("served", [{"queues": ["small"]}, {"excluded": ["large"]}])
def test_claim_never_walks_over_what_the_worker_does_not_serve(served):
    tasks.noop.using(queue_name="small").enqueue()
    by_queue = first_fetch(4, by_queue=True)
    before = [blocks_read_by_a_claim(fetch, **served) for fetch in (None, by_queue)]
    Job.objects.all().delete()
    fill_queues(["large"], 5_000)
    tasks.noop.using(queue_name="small").enqueue()
    after = [blocks_read_by_a_claim(fetch, **served) for fetch in (None, by_queue)]
    assert after[0] <= before[0] + 60, "it ends early"
    assert after[1] <= before[1] + 20


def test_claim_by_queue_leaves_full_queues_at_any_length_of_their_lists():
    """Full queues with the best jobs must not hide the others."""
    Queue.objects.bulk_create(Queue(name=name, max_running=1) for name in QUEUE_NAMES)
    fill_queues(QUEUE_NAMES, 2)
    hand = Hand()
    assert len(hand.record_and_claim(limit=100, fetch=Fetch(1_000, True)).jobs) == 100
    other = tasks.noop.using(queue_name="other", priority=-1).enqueue()
    fetch, jobs = first_fetch(4, by_queue=True), []
    for _ in range(5):
        claimed = hand.record_and_claim(limit=4, fetch=fetch)
        jobs += claimed.jobs
        assert jobs or claimed.has_more
        fetch = fetch.further()
    assert [job.id for job in jobs] == [other.pk]
