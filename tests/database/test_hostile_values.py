"""Values that SQL can store, whatever they are, stop no statement of a worker.

Each column of each table gets hostile values: a row with one is refused as it is
written, or all statements of a worker go on, and jobs beside it run.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import Error, connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgjobs import chain, group
from pgjobs.features.chunks.gathering import calls_of
from pgjobs.features.dependencies import queue as depending
from pgjobs.features.desk import chore as desk
from pgjobs.features.desk.counting import Counted
from pgjobs.features.durable import queue as durable
from pgjobs.features.events import prunejobs
from pgjobs.features.events import queue as events
from pgjobs.features.keeping.chore import prune_successes
from pgjobs.features.keeping.successes import Client
from pgjobs.features.operating.pruning import count_kept
from pgjobs.features.overrides.chore import HoldPaused
from pgjobs.models import (
    Event,
    Job,
    Note,
    Queue,
    Rate,
    Schedule,
    Status,
    Subscription,
)
from pgjobs.queue import (
    claiming,
    recording,
    upkeep,
)
from pgjobs.queue.claiming import LONGEST_SCAN, ClaimedJob, Fetch, Range, first_fetch
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.statements import array
from pgjobs.sql import statement
from pgjobs.worker.upkeep import pruning
from tests import harness
from tests.actors import Hand, OneByOne, admit, execute, hours, job_that_is, survey
from tests.features.roles.test_sql_roles import GRANTS
from tests.features.test_isolation import NAMES
from tests.processes import STATEMENTS
from tests.settings import TEST_DATABASE
from tests.sql import psql
from tests.support import dependent_tasks
from tests.tasks import echo, noop

pytestmark = pytest.mark.django_db

RANGES = [Range(100, 1, 0), Range(0, 0, 10), Range(-1, -100, 0)]
ROLE = f"hostile_{TEST_DATABASE}"
WAYS = [
    {"kind": "answer", "label": "yes", "asked": {"schema": {}, "permission": None}},
    {"kind": "event", "label": "no", "event": "order.*", "aggregate_id": None},
]
# What a task that waits does besides, see `Suspended`; and how an isolated one crashes.
SUSPENDED: dict[str, dict[str, Any]] = {
    "SLEEP": {"statement": "suspend", "stores": {"name": "nap", "seconds": 60}},
    "WAIT": {
        "statement": "suspend",
        "stores": {
            "name": "question",
            "seconds": 60,
            "waiting_for": "event",
            "ways": WAYS,
        },
    },
    "CRASH": {"statement": "crash", "stores": None},
    "PUT_BACK": {"statement": "put_back", "stores": None},
    "GO_ON": {
        "statement": "continue_as",
        "stores": {"args": "[]", "kwargs": "{}", "keys": {}},
    },
}
LARGE = ("-9223372036854775808", "-1", "0", "1", "9223372036854775807")
NUMBERS = ("NaN", "Infinity", "-1", "0", "1e-310", "1e-9", "1e300", "3153600001", "50")
WORDS = ("READY", "RUNNING", "WAITING", "default", "arrived", "unlinked", "undecided")
LINES = ("left", "recorded", "lock door", "mutex door", "limit mail", "rate mail")
LINES += ("paused task tests.noop", "paused lock door", "paused ")
DEEP = "[" * 2_000 + "]" * 2_000
ODD_JSON = ("null", "5", "true", '"x"', "[]", "{}", "[[]]", "[null]", DEEP)
IDS = ("5", "5.0", "1e3", "-1", "0", "1e30", "1e-400", '"5"', "null", "[]", "9" * 18)
LONG = f'"{"x" * 100_000}"'


def objects(**members: Iterable[str]) -> Iterator[str]:
    """Yield JSON objects, each with one hostile member."""
    for name, values in members.items():
        for value in values:
            yield value.join((f'{{"{name}": ', "}")) if name != "is" else value


LIMIT = '{"limit_key": %s, "max_running": %s}'
RATE = '{"rate_key": %s, "rate_burst": %s, "rate_interval": %s}'
NEED = '{"needs": [{"key": %s, "within": %s}], "provides": []}'
PROVIDE = '{"needs": [], "provides": [{"key": %s, "for": %s}]}'
KEYS = [
    *objects(
        lock=(*IDS, '""', '"door"', LONG),
        is_ordered=("5", "null"),
        has_successors=("5", "true", "null"),
        batch_id=IDS,
        needs=("5", '"x"', "null"),
        after=(*IDS, *(f"[{each}]" for each in IDS), f"[[1]{', 1' * 20_000}]"),
        after_batches=(*IDS, *(f"[{each}]" for each in IDS)),
        chunk_by=(*IDS, "[]", "[null]", f"[{LONG}]", '[{"a": 1}]'),
        chunk_wait=(*IDS, "0.5", "86400", "1e-300", "1e300"),
        encrypted=(*IDS, "{}", '{"by": 5}', '{"by": "x", "names": 5}'),
        isolated=("5", "null", "{}"),
        unknown=(LONG, f'"{"y" * 3_000_000}"'),
    ),
    *(LIMIT % (key, 1) for key in ("5", "null", '""', LONG)),
    *(LIMIT % ('"mail"', each) for each in IDS),
    *(RATE % (key, 1, 1) for key in ("5", "null", '""', LONG)),
    *(RATE % ('"mail"', each, 1) for each in IDS),
    *(RATE % ('"mail"', 1, each) for each in (*IDS, "1e-300", "3153600000", "1e-10")),
]
DEPENDENCIES = [
    *objects(needs=ODD_JSON, provides=ODD_JSON),
    *(NEED % (key, 1) for key in ("5", "null", '""', LONG)),
    *(NEED % ('"k"', each) for each in (*IDS, "1e-300", "3153600001")),
    *(PROVIDE % (key, 1) for key in ("5", "null", '""', LONG)),
    *(PROVIDE % ('"k"', each) for each in (*IDS, "1e-300", "3153600001")),
    '{"needs": [], "provides": [{"key": "k", "for": 1}, {"key": "k", "for": 2}]}',
    '{"needs": [{"key": "k", "for": 5}], "provides": [{"key": "k", "within": 5}]}',
    '{"needs": [{"key": "k", "within": 5, "for": 1e300}], "provides": []}',
    '{"needs": [{"key": "k", "within": 1e300, "for": 5}], "provides": []}',
]
VALUES: dict[str, tuple[str, ...]] = {
    "smallint": ("-32768", "-101", "-1", "0", "1", "101", "32767"),
    "integer": ("-2147483648", "-1", "0", "1", "2147483646", "2147483647"),
    "bigint": (*LARGE, "2147483648", "9223372036854775806"),
    "double precision": NUMBERS,
    "boolean": ("true", "false"),
    "timestamp with time zone": (
        *("infinity", "-infinity", "4713-01-01 BC", "1969-12-31", "1970-01-01 00:00Z"),
        *("2020-01-01", "9998-12-31 23:59Z", "294276-01-01"),
    ),
    "interval": ("-1 second", "0", "1 microsecond", "36500 days", "170000000 years"),
    "text": (
        *("", " ", " a", "a ", "a,b", "a\nb", "\x7f", "*", "a.*", "🙂" * 300),
        *("x" * 201, "x" * 100_000, *WORDS, *LINES),
    ),
    "ARRAY": ("{}", "{1}", "{NULL}", "{2147483647}"),
    # Some of each: most columns take any JSON as it is.
    "jsonb": (*ODD_JSON, *KEYS[::10], *DEPENDENCIES[::10], KEYS[-1]),
}
VALUES["character varying"] = VALUES["text"]
# Whose members mean something.
VALUES_OF = {
    "keys": (*ODD_JSON, *KEYS, *DEPENDENCIES[::10]),
    "dependencies": (*ODD_JSON, *DEPENDENCIES, *KEYS[::10]),
    "chunk": (
        *ODD_JSON,
        '{"attempt": "1:0", "alone": "1:0", "part": null}',
        '{"attempt": "1:1", "members": 1e300, "place": -1, "call": {}}',
        '{"attempt": "1:1", "members": 999999999, "place": 5, "call": []}',
    ),
}
COLUMNS = """
SELECT table_name, column_name, data_type
FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name LIKE 'pgjobs\\_%%'
ORDER BY table_name, ordinal_position
"""
# What a row of each table needs, beside the hostile value.
BASES: dict[str, list[dict[str, str]]] = {
    "pgjobs_job": [
        {"task": "tests.noop"},
        {"task": "tests.noop", "status": "SCHEDULED", "run_after": "2020-01-01"},
        {"task": "tests.noop", "keys": '{"lock": "door", "is_ordered": false}'},
        {"task": "tests.noop", "keys": '{"chunk_by": [], "chunk_wait": 5}'},
        {
            "task": "tests.noop",
            "status": "FAILED",
            "finished_at": "2020-01-01",
            "attempts": "1",
        },
        {
            "task": "tests.noop",
            "status": "RUNNING",
            "worker_id": "999999",
            "attempts": "1",
        },
    ],
    "pgjobs_schedule": [
        {"name": "hostile", "task": "tests.noop", "every": "1 hour"},
        {
            "name": "hostile",
            "task": "tests.noop",
            "every": "1 hour",
            "anchor": "end",
            "last_job_id": "(a job)",
        },
    ],
    "pgjobs_event": [{"name": "hostile"}],
    "pgjobs_subscription": [{"task": "tests.noop", "event": "*"}],
    "pgjobs_queue": [{"name": "hostile"}],
    "pgjobs_rate": [{"key": "mail", "full_at": "2020-01-01"}],
    "pgjobs_note": [{}],
    "pgjobs_predecessor": [{"job_id": "(a job)", "predecessor_id": "2"}],
    "pgjobs_prerequisite": [{"job_id": "1", "key": "k"}],
    "pgjobs_batch": [{}],
    "pgjobs_acknowledgement": [
        {"kind": "no_worker", "subject": "", "person": "ada", "until": "2020-01-01"}
    ],
    "pgjobs_override": [
        {"kind": "task", "key": "tests.noop", "paused_at": "2020-01-01"},
        {"kind": "lock", "key": "door", "paused_at": "2020-01-01"},
        {"kind": "limit", "key": "mail", "max_running": "1"},
        {"kind": "rate", "key": "mail", "rate_number": "1", "rate_seconds": "60"},
        {"kind": "task", "key": "tests.noop", "rate_number": "5", "rate_seconds": "1"},
    ],
    "pgjobs_figure": [
        {
            "span": "60",
            "start": "2020-01-01",
            "queue_name": "default",
            "task": "tests.noop",
            "run_times": "{}",
            "wait_times": "{}",
        }
    ],
}


def values_of(column: str, kind: str) -> tuple[str, ...]:
    return VALUES_OF.get(column) or VALUES.get(kind, ())


def columns() -> dict[str, dict[str, str]]:
    """Return {table: {column: type}}."""
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in execute(COLUMNS):
        found.setdefault(table, {})[column] = kind
    return found


@contextmanager
def undone() -> Iterator[None]:
    """Undo at the end what is written."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def stored(sql: str, values: dict[str, str]) -> bool:
    """Write a row; return whether it was accepted."""
    try:
        with transaction.atomic():
            execute(sql, values)
            execute("SET CONSTRAINTS ALL IMMEDIATE")  # as a COMMIT would find it
            execute("SET CONSTRAINTS ALL DEFERRED")
    except Error:
        return False
    return True


def insert(table: str, kinds: dict[str, str], values: dict[str, str]) -> bool:
    names = ", ".join(values)
    places = ", ".join(f"%({name})s::{kinds[name]}" for name in values)
    rows = f"({names}) VALUES ({places})" if values else "DEFAULT VALUES"
    return stored(f"INSERT INTO {table} {rows}", values)


def update(table: str, kinds: dict[str, str], values: dict[str, str]) -> bool:
    """Change some rows of the table, those that can be changed."""
    changes = ", ".join(f"{name} = %({name})s::{kinds[name]}" for name in values)
    kind = "status" if table == "pgjobs_job" else "ctid"
    places = [
        place
        for (place,) in execute(
            f"SELECT min(ctid)::text FROM {table} GROUP BY {kind} LIMIT 8"
        )
    ]
    done = [
        stored(
            f"UPDATE {table} SET {changes} WHERE ctid = %(place)s::tid",
            {**values, "place": place},
        )
        for place in places
    ]
    return any(done)


@pytest.fixture
def busy(no_schedules, no_subscriptions):
    """Something of everything."""
    execute("SET LOCAL statement_timeout = '10s'")
    for status in Status.values:
        job_that_is(status)
    hand = Hand("lost", lease_until=timezone.now() - hours(1))
    noop.using(priority=100).enqueue()
    hand.claim()
    for keys in ({"lock": "door"}, {"max_running": 1}, {"rate": "1/minute"}):
        for _ in range(2):
            noop.using(**keys).enqueue()
    chain(noop.bind(), group([noop.bind(), noop.bind()]), noop.bind()).enqueue()
    dependent_tasks.refresh_client.enqueue("x", 1)
    Queue.objects.create(name="limited", max_running=1)
    noop.using(queue_name="limited").enqueue()
    Schedule.objects.create(name="due", task="tests.noop", every=timedelta(hours=1))
    Schedule.objects.update(next_run_at=timezone.now())
    Subscription.objects.create(task="tests.echo", event="late.*")
    Event.objects.create(name="late.one", payload={"value": 1}, handlers=0)
    Event.objects.create(name="old", payload={}, handlers=0)
    Rate.objects.create(key="full", full_at=timezone.now() - hours(1))
    Note.objects.create(job_id=Job.objects.latest("pk").pk)
    admit(sweeps=False)
    return hand


def counted() -> list[dict[str, Any]]:
    """Return what a worker has counted of a job."""
    sums = Counted()
    sums.begin(("default", "tests.noop")).run_times[0] = 1
    return sums.rows()


def hold_paused() -> None:
    """Do what a worker does about pauses, and what it does once it has walked."""
    chore = HoldPaused()
    for _ in range(3):
        chore.run(cast(Any, SimpleNamespace(execute=execute)))
    first = {"priority": 100, "turn": -1, "limit": 1_000}
    execute(statement("hold_ready"), first)
    execute(statement("end_walk"), {"ids": chore.ids})


class Working:
    """All that a worker does, once; the names of what raised, and why."""

    def __init__(self) -> None:
        self.hand = Hand("working", beating_since=timezone.now() - hours(1))
        self.faults: dict[str, str] = {}
        self.is_careful = False

    def do(self, name: str, act: Callable[[], Any]) -> Any:
        if not self.is_careful:
            return act()
        try:
            with transaction.atomic():
                return act()
        except Error as error:
            self.faults[name] = str(error).strip()[:200]
        return None

    def run(self, name: str, /, **parameters: Any) -> list[tuple]:
        return self.do(name, lambda: execute(statement(name), parameters)) or []

    def work(self) -> dict[str, str]:
        """Do everything; once more with a savepoint for each act if one has raised."""
        hand = self.hand
        try:
            with transaction.atomic():
                self.do_everything()
        except Error:
            self.is_careful, self.hand, self.faults = True, hand, {}
            self.do_everything()
        return self.faults

    def do_everything(self) -> None:
        self.fetch()
        self.fire()
        self.seek_culprits()
        self.upkeep()
        self.do("admit", self.admit)
        claimed = self.claim()
        self.gather(claimed)
        self.report(claimed)
        self.record(claimed)
        self.do("admit again", self.admit)
        self.rescue()
        self.do("beat", self.hand.beat)

    def fetch(self) -> None:
        self.do("chores", lambda: survey(self.hand.id))
        self.run("resign", worker_id=self.hand.id)
        self.run("left_listeners")
        self.run("held_locks", limit=100)
        self.run("look_at_manifests", worker_id=self.hand.id, lives=150.0)
        self.run("planned_schedules", after=0, limit=100)
        self.run("make_waiting_queues", after="", after_line="", limit=100)
        self.run("next_fire", after=0, limit=100)
        self.run("due_schedules", limit=100)
        self.run("orphans", worker_id=self.hand.id, lease_tokens="{}")
        self.run("cancel_requests", worker_id=self.hand.id, held=[])

    def fire(self) -> None:
        due = execute(
            "SELECT id, next_run_at::text FROM pgjobs_schedule"
            " WHERE next_run_at IS NOT NULL LIMIT 50"
        )
        ids, times = [id for id, _ in due], [time for _, time in due]
        plans = {"ids": ids, "expected": times, "next_runs": times}
        ticks = {"tick_schedules": ids, "tick_times": times}
        notes = {"skips": [0] * len(ids), "errors": [""] * len(ids)}
        for id in ids:
            self.run("arguments_of_schedule", id=id)
        fired = self.run("fire", **plans, **ticks, **notes)
        self.run("replan", **plans)
        made = [tick for _, tick, *_ in fired if tick]
        self.run("link_ticks", ticks=made, jobs=[None] * len(made))

    def seek_culprits(self) -> None:
        """Do what a worker does after a statement about several jobs has failed."""
        batch = upkeep.Batch(1_000)
        self.do("candidates", lambda: upkeep.candidates(execute, "expiry", batch))
        self.do("candidates", lambda: upkeep.candidates(execute, "promotion", batch))
        self.do(
            "candidates",
            lambda: upkeep.candidates(execute, "rescue", batch, worker_id=self.hand.id),
        )
        self.do("candidates", lambda: upkeep.candidates(execute, "ends", batch))
        seen = OLDEST._asdict()
        self.do(
            "candidates",
            lambda: upkeep.candidates(execute, "pruning_successes", batch, **seen),
        )
        old = {"status": "FAILED", "age": 60.0, **OLDEST._asdict()}
        self.do(
            "candidates", lambda: upkeep.candidates(execute, "pruning", batch, **old)
        )

    def upkeep(self) -> None:
        ages = {"SUCCESSFUL": 60.0, "FAILED": 60.0}
        chores = {
            "promote": lambda: upkeep.promote(execute),
            "expire": lambda: upkeep.expire(execute),
            "deliver_late": lambda: events.deliver_late(execute, 3600.0),
            "prune": lambda: upkeep.prune(execute, ages),
            "prune_batches": lambda: upkeep.prune_batches(execute),
            "prune_left_rows": lambda: upkeep.prune_left_rows(execute),
            "prune_events": lambda: events.prune(execute, 0.0),
            "wake": lambda: durable.wake(execute),
            "find_awaited": lambda: durable.find_awaited(execute, 600.0),
            "end_lives": lambda: durable.end_lives(execute),
            "kept_jobs": lambda: count_kept(execute, ages),
            "kept_events": lambda: prunejobs.count_kept(execute, 0.0),
            "forget_rates": lambda: upkeep.forget_rates(execute),
            "undecided": lambda: depending.undecided(execute, ["tests.noop"], 9),
            "prerequisites": lambda: depending.look_up(execute, [("k", 5.0)]),
            "make_queues": lambda: upkeep.make_queues(execute, ["new"]),
            "add_figures": lambda: desk.add_figures(execute, counted()),
            "prune_figures": lambda: desk.prune_figures(execute, 60.0, 60.0),
            "prune_ended_workers": lambda: desk.prune_ended_workers(execute),
            "overrides": hold_paused,
            "prune_audit": lambda: pruning.prune_audit(execute),
            "prune_successes": lambda: prune_successes(execute, OLDEST, upkeep.ALL_DUE),
        }
        for name, chore in chores.items():
            self.do(name, chore)
        waits = {"tasks": ["tests.noop"], "queues": None, "excluded": []}
        self.run("end_waits", **waits, limit=100)

    def admit(self) -> None:
        """Admit until nothing moves, as a worker does; a worker must not spin."""
        row = {"after_queue": "", "after_line": "", "after_link": 0}
        for _ in range(30):
            ((*said, queue, line, link),) = execute(
                statement("admit"),
                {
                    **{
                        "most": 1_000,
                        "seconds": 1.0,
                        "sweeps": True,
                        "room": 0,
                        "claims": False,
                    },
                    **{"queues": None, "excluded": [], **row},
                    **recording.success_parameters(0, ()),
                },
            )
            row = {"after_queue": queue, "after_line": line, "after_link": link}
            _, admitted, ended, has_more, *_ = said
            if not (admitted or ended or has_more or queue or line or link):
                return
        self.faults["admit"] = "It spins."

    def claim(self) -> list:
        """Claim all that there is, alone and beside others, with each kind of fetch."""
        fetches = (
            Fetch(LONGEST_SCAN, skips_special=True),
            first_fetch(200),
            first_fetch(200, by_queue=True),
            first_fetch(200)._replace(ranges=RANGES),
        )
        claimed = [job for fetch in fetches for job in self.claim_one(fetch)]
        for is_idle in (False, True, True, True, True):
            for fetch in fetches:
                how = {"limit": 200, "is_idle": is_idle, "fetch": fetch}
                how["prefetched"] = 200 if is_idle else 0
                found = self.do(
                    "claim", lambda how=how: self.hand.record_and_claim(**how)
                )
                claimed += found.jobs if found else []
        return claimed

    def claim_one(self, fetch: Fetch) -> list:
        """Claim as a worker does after a claim that has failed: choose, then take."""
        how = {"limit": 1, "fetch": fetch, "claims": False}
        chosen = self.do("choose", lambda: self.hand.record_and_claim(**how))
        ids = array(chosen.ids if chosen else ())
        rows = self.run("claim_these", worker_id=self.hand.id, ids=ids)
        return list(map(ClaimedJob._make, rows))

    def gather(self, claimed: list) -> None:
        most = dict.fromkeys({job.task for job in claimed}, 3)
        calls = self.do(
            "gather", lambda: list(calls_of(execute, self.hand.id, claimed, most))
        )
        tokens = [member.lease_token for call in calls or () for member in call.members]
        self.run(
            "keep_parts",
            ids=array(job.id for job in claimed),
            lease_tokens=array(tokens),
            parts=json.dumps(["1/0"] * len(tokens)),
        )

    def report(self, claimed: list) -> None:
        for job in claimed:
            self.run(
                "mark_step",
                job_id=job.id,
                lease_token=job.lease_token,
                name="step",
                return_value="1",
            )
            self.run("steps", job_id=job.id, life=job.life)
            self.run("still_owned", id=job.id, lease_token=job.lease_token)
            self.wait(job)
        said = {"done": 1, "total": 2, "message": "half", "log": ""}
        reports = [
            {"id": job.id, "lease_token": job.lease_token, **said} for job in claimed
        ]
        self.do("report", lambda: recording.report(execute, self.hand.id, reports))
        ids = [job.id for job in claimed]
        self.do("locked", lambda: recording.locked(execute, self.hand.id, ids))
        self.do("in_doubt", lambda: recording.recorded_before(execute, claimed))

    def wait(self, job: ClaimedJob) -> None:
        """Ask what a job asks that waits."""
        self.do("newest", lambda: durable.newest("default", job.id))
        for name in ("own_version", "seconds_left"):
            self.run(name, id=job.id)
        self.run("first_life", job_id=job.id, life=job.life)
        self.run("refused_jobs", job_id=job.id, ids=[job.id], limit=100)
        self.run(
            "take_wait",
            job_id=job.id,
            lease_token=job.lease_token,
            name="question",
            ways=json.dumps(WAYS),
            accepted=None,
            reads_steps=True,
        )
        self.run("drop_answer", id=0)
        self.run(
            "mark_encrypted", job_id=job.id, lease_token=job.lease_token, marks="{}"
        )
        self.run(
            "seal_step",
            job_id=job.id,
            lease_token=job.lease_token,
            name="question",
            return_value="[]",
        )
        self.run("save_metadata", id=job.id, lease_token=job.lease_token, metadata="{}")
        self.run(
            "store_results",
            job_id=job.id,
            lease_token=job.lease_token,
            values="{}",
            marks="{}",
        )

    def record(self, claimed: list) -> None:
        """Let the jobs end in all ways, one after the other."""
        ends = (
            "SUCCESS",
            "DELETE",
            "FAIL",
            "RETRY",
            "SNOOZE",
            "RELEASE",
            "CANCEL",
            "LOST",
        )
        verdicts = (*SUSPENDED, *ends)
        for number, job in enumerate(claimed):
            verdict = verdicts[number % len(verdicts)]
            if verdict == "SUCCESS":
                self.do(verdict, lambda job=job: self.succeed(job))
            elif verdict == "DELETE":
                self.do(verdict, lambda job=job: self.delete(job))
            elif verdict in SUSPENDED:
                how = SUSPENDED[verdict]
                self.do(
                    verdict,
                    lambda job=job, how=how: self.hand.set_back(job, "SUSPEND", **how),
                )
            elif verdict != "LOST":
                self.do(
                    verdict,
                    lambda job=job, verdict=verdict: self.hand.set_back(job, verdict),
                )

    def succeed(self, job) -> None:
        """Record a success without a claim, and again as a claim does."""
        success = recording.Success(job.id, job.lease_token, None)
        recording.record_successes(execute, self.hand.id, "working", [success])
        self.hand.succeed(job)

    def delete(self, job) -> None:
        """Record a success whose row may go, without a claim and with one."""
        success = recording.Success(job.id, job.lease_token, None)
        client = Client(OneByOne(execute), [success])
        execute(
            statement("rows_of_successes"),
            {"ids": array([job.id]), "return_values": [None], "worker_name": "hand"},
        )
        recording.record_successes(client.execute, self.hand.id, "hand", [success])
        claiming.record_and_claim(client, self.hand.id, successes=[success])
        execute(statement("gone"), {"ids": array([job.id])})

    def rescue(self) -> None:
        """Let a worker rescue the jobs of another, and jobs whose worker has no row."""
        self.hand.vanish()
        self.hand = Hand("rescuer")
        for _ in range(3):
            self.do("rescue", self.hand.rescue)


def check_that_workers_go_on(what: Any) -> None:
    faults = Working().work()
    assert not faults, f"{what}: {faults}"
    plain = echo.using(queue_name="plain").enqueue("still here")
    hand = Hand("last")
    for _ in range(20):
        claimed = [
            job.id for job in hand.record_and_claim(limit=500, is_idle=True).jobs
        ]
        if plain.pk in claimed or not claimed:
            break
    assert plain.pk in claimed, what


def hostile_rows(table: str, kinds: dict[str, str], column: str, how: str) -> int:
    """Write a row for each hostile value; return how many were accepted."""
    values = values_of(column, kinds[column])
    if how == "update":
        return sum(update(table, kinds, {column: value}) for value in values)
    bases = [filled_in(base) for base in BASES.get(table, [])]  # one fetch for each
    return sum(
        insert(table, kinds, {**base, column: value})
        for value in values
        for base in bases
    )


def filled_in(base: dict[str, str]) -> dict[str, str]:
    job = str(Job.objects.earliest("pk").pk)
    return {name: job if text == "(a job)" else text for name, text in base.items()}


EVIL = """
DO $$ BEGIN
    IF to_regoperator('pg_catalog.{operator}({left},{right})') IS NULL THEN
        CREATE OR REPLACE FUNCTION evil_{left}_{right}(x {left}, y {right})
            RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
        CREATE OPERATOR public.{operator}
            (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = evil_{left}_{right});
    END IF;
END $$
"""
TABLES = (
    *("acknowledgement", "answer", "attempt", "auditentry", "awaitedevent", "batch"),
    *("codeversion", "delivery", "endedworker", "errorgroup"),
    *("event", "figure", "job", "manifest", "manifestentry", "move", "note", "parcel"),
    *("override", "predecessor"),
    *("prerequisite", "progress", "queue", "rate", "schedule", "step"),
    *("subscription", "taskdefinition", "tick", "wait", "waitnote", "worker"),
)


def test_all_tables_are_attacked(db):
    assert {f"pgjobs_{table}" for table in TABLES} == set(columns())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["insert", "update"])
@pytest.mark.parametrize("table", [f"pgjobs_{table}" for table in TABLES])
def test_no_value_of_any_column_stops_a_worker(busy, table, how):
    kinds = columns()[table]
    wrong = {}
    for column in kinds:
        with undone():
            if hostile_rows(table, kinds, column, how):
                try:
                    check_that_workers_go_on(column)
                except AssertionError as error:
                    wrong[column] = str(error)[:600]
    assert wrong == {}, "\n".join(f"{key}: {text}" for key, text in wrong.items())


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_rows_of_several_hostile_values_stop_a_worker(busy, data):
    """The role that writes them owns the tables."""
    every = columns()
    written = []
    with undone():
        for _ in range(data.draw(st.integers(1, 8))):
            table = data.draw(st.sampled_from(sorted(BASES)))
            kinds = every[table]
            base = filled_in(data.draw(st.sampled_from(BASES[table])))
            values = base | drawn(data, kinds)
            write = data.draw(st.sampled_from([insert, update]))
            if write(table, kinds, values):
                written.append((table, values))
        check_that_workers_go_on(str(written)[:2_000])


def drawn(data, kinds: dict[str, str]) -> dict[str, str]:
    known = sorted(name for name in kinds if kinds[name] in VALUES)
    names = data.draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
    return {
        name: data.draw(st.sampled_from(values_of(name, kinds[name]))) for name in names
    }


@pytest.fixture(scope="module")
def producer():
    with harness.role("hostile"):
        yield


def test_no_value_that_a_producer_may_write_stops_a_worker(producer, busy):
    """The producer has the rights of docs/sql.md. What it may not write is refused."""
    psql(GRANTS["producer"].replace("producer", ROLE))
    kinds = columns()["pgjobs_job"]
    with undone():
        psql(f"SET LOCAL ROLE {ROLE}")
        for column in kinds:
            for value in values_of(column, kinds[column]):
                insert("pgjobs_job", kinds, {"task": "tests.noop", column: value})
        psql("RESET ROLE")
        check_that_workers_go_on("as a producer")


def test_no_operator_of_another_schema_is_used_for_a_comparison(busy):
    """Otherwise a role that creates one could run it with a worker's rights."""
    kinds = ("varchar", "bpchar", "name", "text", "int2", "int4", "int8", "oid")
    for left in kinds:
        for right in kinds:
            for operator in ("=", "<>", "<", ">", "<=", ">="):
                execute(EVIL.format(left=left, right=right, operator=operator))
    check_that_workers_go_on("operators")


# A worker runs these before it has jobs and after it has recorded them.
BEGINNING_AND_END = {"register_worker", "leave"}
# These ask about locks of the server, and read no row.
ABOUT_LOCKS = {
    "commits_wait",
    "held_locks",
    "need_no_notifications",
    "silent_ones_ended",
    "want_notifications",
}
# Its text names a table of the project; its worth is one job, in the job's transaction;
# its values come from the registry.
ELSEWHERE = {"referred_jobs", "complete", "depend"}
# Parts of record_with_group.sql, for a role that may not write all that it stores.
PARTS_OF_RECORD = {"record", "record_without_attempt"}


def test_every_statement_of_a_worker_takes_part(busy):
    ran = set()

    def note(execute, sql, *others):
        ran.add(STATEMENTS.get(sql))
        return execute(sql, *others)

    with connection.execute_wrapper(note):
        Working().work()
    left_out = BEGINNING_AND_END | ABOUT_LOCKS | ELSEWHERE | PARTS_OF_RECORD
    assert ran >= NAMES - left_out
