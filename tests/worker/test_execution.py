"""One execution of one job: whatever its task does becomes a recorded outcome."""

import asyncio
import dataclasses
import gc
import json
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from pgjobs import (
    Cancel,
    Fail,
    Retry,
    Snooze,
    constant,
    current_job,
    enqueue,
    signals,
    task,
)
from pgjobs.models import Attempt, Batch, Job, Progress
from pgjobs.queue import recording
from pgjobs.worker.recorder import REPORT_SECONDS
from pgjobs.worker.slots.execution import ThreadExecution
from tests import tasks
from tests.actors import linked_job
from tests.processes import (
    drain,
    run,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue


def attempt_of(job) -> Attempt:
    return Attempt.objects.get(job=job)


def insert(task_name, **columns) -> Job:
    """Insert a job by SQL, as any other client may."""
    values = {"task": task_name, **columns}
    names = ", ".join(values)
    places = ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO pgjobs_job ({names}) VALUES ({places}) RETURNING id",
            list(values.values()),
        )
        return Job.objects.defer("kwargs", "args").get(pk=cursor.fetchone()[0])


def is_due_in(job, seconds: float, tolerance: float = 5.0) -> bool:
    left = (job.run_after - timezone.now()).total_seconds()
    return seconds - tolerance < left <= seconds


@pytest.fixture
def heard():
    """The signals sent while the test runs, as (name, id of the job, status)."""
    received = []
    receivers = []
    for name in ("job_enqueued", "job_started", "job_finished"):

        def receive(sender, job, name=name, **kwargs):
            received.append((name, job.pk, job.status))

        receivers.append((getattr(signals, name), receive))
        getattr(signals, name).connect(receive)
    yield received
    for signal, receive in receivers:
        signal.disconnect(receive)


# Results


def test_return_values_are_stored():
    values = [None, 0, False, "", "ä☃🙂", 1.5, [1, [2]], {"a": None}, 10**4000, [[[]]]]
    jobs = [enqueue(return_what, json.dumps(value)) for value in values]
    drain()
    for job, value in zip(jobs, values, strict=True):
        job.refresh_from_db()
        assert job.status == "SUCCESSFUL"
        assert job.return_value == value
        assert job.finished_at >= job.last_attempted_at
        assert (job.attempts, job.failures, job.reason) == (1, 0, "")
    assert not Attempt.objects.exists()


@task
def return_what(text: str):
    return json.loads(text)


class Grumpy:
    def __repr__(self):
        raise SystemExit("no repr")


class Elusive(dict):
    def items(self):
        raise KeyError("gone meanwhile")


class Cycle:
    def __new__(cls):
        cycle = []
        cycle.append(cycle)
        return cycle


ODDITIES = {
    "an object": object,
    "an object without repr": Grumpy,
    "a coroutine": lambda: asyncio.sleep(0),
    "NaN": lambda: float("nan"),
    "infinity": lambda: [float("-inf")],
    "NUL": lambda: "a\0b",
    "NUL in a key": lambda: {"a\0b": 1},
    "a surrogate": lambda: ["\ud800"],
    "a surrogate in a key": lambda: {"\udfff": 1},
    "a number as key": lambda: {1: 2},
    "bytes": lambda: b"a",
    "a date": timezone.now,
    "too many digits": lambda: 10**5000,
    "too deep": lambda: json.loads("[" * 200 + "]" * 200),
    "a cycle": Cycle,
    "too large": lambda: "x" * 1_000_001,
    "a dict that changes meanwhile": lambda: Elusive(a=1),
}


class Place(NamedTuple):
    x: int
    y: float = 1.5


@task
def return_several():
    return 1, "a", {"inner": (2, [Place(3)])}


@task
def return_pair() -> tuple[int, str]:
    return 1, "a"


@task
def return_place() -> "Place | None":
    return Place(1)


@task(atomic=True)
def return_sequence_atomically() -> Sequence[int]:
    return 1, 2


@task
async def return_pair_async() -> "tuple[int, ...]":
    return 1, 2


@task
def return_unknown() -> "Nowhere":  # noqa: F821
    return 1, 2


RETURNED = pytest.mark.parametrize(
    ("returning", "result"),
    [
        (return_several, [1, "a", {"inner": [2, [[3, 1.5]]]}]),
        (return_pair, [1, "a"]),
        (return_place, [1, 1.5]),
        (return_sequence_atomically, [1, 2]),
        (return_pair_async, [1, 2]),
        (return_unknown, [1, 2]),
    ],
)


@RETURNED
def test_tuple_is_stored_as_a_list(returning, result):
    job = enqueue(returning)
    drain()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", result)


@task
def return_tuple_for_a_list() -> list[int]:
    return 1, 2


@task
def return_tuple_for_a_text() -> str:
    return ("text",)


@pytest.mark.parametrize(
    ("returning", "hint"),
    [(return_tuple_for_a_list, "list"), (return_tuple_for_a_text, "str")],
)
def test_tuple_that_the_return_hint_does_not_allow_fails_the_job(returning, hint):
    job = enqueue(returning)
    drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert f"a tuple, which does not fit the return hint {hint}" in job.reason


@task
def return_large_float():
    return 1e22


def test_large_float_is_a_float_as_a_result():
    job = enqueue(return_large_float)
    drain()
    job.refresh_from_db()
    assert repr(job.return_value) == "1e+22"


@task
def return_oddity(name: str):
    return ODDITIES[name]()


@pytest.mark.filterwarnings("ignore:coroutine")
def test_results_that_are_not_json_fail_the_job_at_once_and_with_the_reason():
    jobs = {name: enqueue(return_oddity, name) for name in ODDITIES}
    last = enqueue(tasks.noop)
    drain(slots=1)
    for name, job in jobs.items():
        job.refresh_from_db()
        found = (job.status, job.attempts, job.failures, job.return_value)
        assert found == ("FAILED", 1, 1, None), name
        assert "result cannot be stored" in job.reason, name
        assert attempt_of(job).outcome == "FAILED"
    assert "1000003 bytes of JSON" in jobs["too large"].reason
    assert "NUL" in jobs["NUL"].reason
    assert "nan is not JSON" in jobs["NaN"].reason
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL"


# Errors


class Odd(Exception):
    pass


class Mute(Exception):
    def __str__(self):
        raise ValueError("no message")

    __repr__ = __str__


class Deadly(Exception):
    def __str__(self):
        raise SystemExit(1)


class Own(BaseException):
    pass


class Misnamed(Exception):
    pass


Misnamed.__qualname__ = "Mis\0named\ud800"


def cyclic():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def chained():
    error = ValueError("link 0")
    for number in range(1, 3_000):
        following = ValueError(f"link {number}")
        following.__cause__ = error
        error = following
    return error


ERRORS = {
    "ValueError": lambda: ValueError("no"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "CancelledError": asyncio.CancelledError,
    "Own": Own,
    "ExceptionGroup": lambda: ExceptionGroup("some", [ValueError("\0")] * 1_000),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("some", [SystemExit()]),
    "Mute": Mute,
    "Deadly": Deadly,
    "Misnamed": Misnamed,
    "SyntaxError": lambda: SyntaxError("odd", ("file", "1", None, object())),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("x", b"\xff", 0, 1, "\ud800"),
    "a long message": lambda: Odd("<b>" + "x" * 50_000_000),
    "NUL": lambda: Odd("a\0b"),
    "surrogates": lambda: Odd("\ud800 and \udfff"),
    "bytes": lambda: Odd(b"\xff\0"),
    "lines": lambda: Odd("<html>\n" * 50_000),
    "a cycle": cyclic,
    "a chain": chained,
}


@task(max_attempts=1)
def raise_error(name: str):
    raise ERRORS[name]()


def test_whatever_a_task_raises_is_recorded_and_the_worker_lives():
    jobs = {name: enqueue(raise_error, name) for name in ERRORS}
    last = enqueue(tasks.noop)
    drain(slots=1)
    for name, job in jobs.items():
        job.refresh_from_db()
        found = (job.status, job.attempts, job.failures)
        assert found == ("FAILED", 1, 1), name
        attempt = attempt_of(job)
        assert attempt.outcome == "FAILED", name
        assert attempt.exception_class, name
        assert len(attempt.message) < 11_000, name
        assert len(attempt.traceback) < 33_000, name
    assert jobs["ValueError"].reason == "ValueError: no"
    assert attempt_of(jobs["Own"]).exception_class == "tests.worker.test_execution.Own"
    assert "cannot be formatted" not in attempt_of(jobs["a cycle"]).traceback
    assert jobs["Mute"].reason == "Mute: <its message raises ValueError>"
    assert jobs["NUL"].reason == "Odd: a\ufffdb"
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL"


def descend(frames: int):
    if frames:
        descend(frames - 1)
    raise ValueError("at the bottom")


@task(max_attempts=1)
def fail_deep_down():
    descend(10_000)


def test_error_below_ten_thousand_frames_is_recorded():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(12_000)
    threading.stack_size(64 * 1024 * 1024)
    try:
        job = run(fail_deep_down)
    finally:
        threading.stack_size(0)
        sys.setrecursionlimit(limit)
    assert job.reason == "ValueError: at the bottom"
    assert attempt_of(job).traceback.endswith("ValueError: at the bottom\n")


def test_traceback_begins_in_the_task():
    traceback = attempt_of(run(raise_error, "ValueError")).traceback
    assert traceback.splitlines()[1].endswith("in raise_error")


def test_failing_job_is_retried_after_its_backoff_until_no_attempt_is_left():
    job = enqueue(fail_always)
    for number in (1, 2):
        drain()
        job.refresh_from_db()
        assert (job.status, job.attempts, job.failures) == ("SCHEDULED", number, number)
        assert is_due_in(job, 100 * number)
        job.run_now()
    drain()
    job.refresh_from_db()
    assert (job.status, job.attempts, job.failures) == ("FAILED", 3, 3)
    numbers = job.attempts_made.order_by("number").values_list("number", "outcome")
    assert list(numbers) == [(1, "FAILED"), (2, "FAILED"), (3, "FAILED")]


@task(backoff=lambda failures: 100 * failures)
def fail_always():
    raise ValueError("no")


def test_backoff_of_nothing_retries_at_once():
    job = run(fail_without_backoff)
    assert (job.status, job.attempts, job.failures) == ("FAILED", 3, 3)


@task(backoff=constant(0))
def fail_without_backoff():
    raise ValueError("no")


def unable(failures):
    raise RuntimeError("no backoff")


def turning(into):
    """Return a backoff that gives seconds when it is declared, and then this."""
    waits = iter([0])
    return lambda failures: next(waits, into)


def leaving(failures):
    raise SystemExit("no backoff")


@task(max_attempts=2, backoff=unable)
def fail_with_backoff_that_raises():
    raise ValueError("no")


@task(max_attempts=2, backoff=leaving)
def fail_with_backoff_that_exits():
    raise ValueError("no")


@task(max_attempts=2, backoff=turning("soon"))
def fail_with_backoff_of_text():
    raise ValueError("no")


@task(max_attempts=2, backoff=turning(-1))
def fail_with_negative_backoff():
    raise ValueError("no")


@task(max_attempts=2, backoff=turning(float("nan")))
def fail_with_backoff_of_nan():
    raise ValueError("no")


def test_backoff_that_cannot_be_used_is_replaced_by_the_default(caplog):
    broken = [
        fail_with_backoff_that_raises,
        fail_with_backoff_that_exits,
        fail_with_backoff_of_text,
        fail_with_negative_backoff,
        fail_with_backoff_of_nan,
    ]
    jobs = [enqueue(each) for each in broken]
    drain(slots=1)
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.failures) == ("SCHEDULED", 1), job.task
        assert is_due_in(job, 7, tolerance=7), job.task
        assert job.reason == "ValueError: no"
    assert "using the default" in caplog.text


def test_only_errors_of_retry_on_but_none_of_no_retry_on_are_retried():
    expected = {
        "OSError": "SCHEDULED",
        "FileNotFoundError": "FAILED",
        "ValueError": "FAILED",
    }
    jobs = {name: enqueue(fail_by_class, name) for name in expected}
    drain()
    assert {
        name: Job.objects.get(pk=job.pk).status for name, job in jobs.items()
    } == expected


@task(retry_on=(OSError,), no_retry_on=(FileNotFoundError,))
def fail_by_class(name: str):
    raise __builtins__[name]("no")


# Control flow


@task
def steer(how: str):
    raise STEERING[how]()


class Restless(Snooze):
    def __init__(self):
        pass  # and sets no delay


def endless():
    error = Retry()
    error.after = float("nan")
    return error


STEERING = {
    "retry": lambda: Retry(after=100, reason="not yet"),
    "retry by backoff": Retry,
    "retry now": lambda: Retry(after=0),
    "fail": lambda: Fail("never"),
    "snooze": lambda: Snooze(timedelta(seconds=100)),
    "cancel": lambda: Cancel("superfluous"),
    "snooze without delay": Restless,
    "retry after nothing": endless,
}


def test_retry_counts_a_failure_and_waits_as_long_as_it_says():
    job = run(steer, "retry")
    assert (job.status, job.attempts, job.failures) == ("SCHEDULED", 1, 1)
    assert is_due_in(job, 100)
    assert job.reason == attempt_of(job).message == "not yet"


def test_retry_without_a_time_asks_the_backoff():
    job = run(steer, "retry by backoff")
    assert job.status == "SCHEDULED"
    assert is_due_in(job, 7, tolerance=7)


def test_retry_fails_the_job_when_no_attempt_is_left():
    job = run(steer, "retry now")
    assert (job.status, job.attempts, job.failures) == ("FAILED", 3, 3)


def test_fail_fails_the_job_whatever_attempts_are_left():
    job = run(steer, "fail")
    assert (job.status, job.attempts, job.failures) == ("FAILED", 1, 1)
    assert job.reason == "never"


def test_snooze_counts_no_failure():
    job = run(steer, "snooze")
    assert (job.status, job.attempts, job.failures) == ("SCHEDULED", 1, 0)
    assert is_due_in(job, 100)
    assert attempt_of(job).outcome == "SNOOZED"


def test_cancel_ends_the_job_cancelled():
    job = run(steer, "cancel")
    assert (job.status, job.failures, job.reason) == ("CANCELLED", 0, "superfluous")
    assert attempt_of(job).outcome == "CANCELLED"


@pytest.mark.parametrize("how", ["snooze without delay", "retry after nothing"])
def test_control_flow_that_makes_no_sense_fails_the_job(how):
    job = run(steer, how)
    assert (job.status, job.attempts) == ("FAILED", 1)
    drain()


# Rows inserted by SQL


def deep(levels: int) -> str:
    return '{"value": ' + "[" * levels + "]" * levels + "}"


@dataclasses.dataclass
class Picky:
    size: int

    def __post_init__(self):
        raise KeyError(self.size)


@task
def take_picky(value: Picky):
    pass


@task
def take_text(value: str):
    pass


def test_rows_that_cannot_be_read_fail_alone():
    rows = {
        "5000 digits": ("tests.echo", '{"value": ' + "9" * 5_000 + "}"),
        "3000 deep": ("tests.echo", deep(3_000)),
        "unknown parameter": ("tests.echo", '{"value": 1, "other": 2}'),
        "missing parameter": ("tests.add", "{}"),
        "wrong type": ("tests.add", '{"a": "1"}'),
        "hint that raises": ("tests.take_picky", '{"value": {"size": 1}}'),
    }
    jobs = {key: insert(name, kwargs=kwargs) for key, (name, kwargs) in rows.items()}
    jobs["unnamed values"] = insert("tests.noop", args="[1]")
    good = insert("tests.add", kwargs='{"a": 1}')
    drain(slots=1)
    for key, job in jobs.items():
        job.refresh_from_db(fields=["status", "reason", "attempts", "failures"])
        assert (job.status, job.attempts, job.failures) == ("FAILED", 1, 1), key
        assert attempt_of(job).message, key
    assert "other: is no parameter" in jobs["unknown parameter"].reason
    assert "a: is missing" in jobs["missing parameter"].reason
    assert "a: input should be a valid integer" in jobs["wrong type"].reason
    good.refresh_from_db()
    assert (good.status, good.return_value) == ("SUCCESSFUL", 2)


def test_deep_rows_fail_or_run_but_never_stop_the_worker():
    depths = [*range(100, 1_500, 100), 3_000, 6_000]
    for task_name in ("tests.echo", "tests.take_text"):
        for depth in depths:
            insert(task_name, kwargs=deep(depth))
    last = insert("tests.add", kwargs='{"a": 1}')
    drain(slots=1)
    assert Job.objects.filter(status="FAILED").count() >= 2 * len(depths) - 20
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL"


# Tasks by name


def test_unknown_task_is_released_until_its_grace_is_over():
    job = insert("shop.gone")
    drain()
    job.refresh_from_db()
    assert (job.status, job.attempts, job.failures) == ("SCHEDULED", 1, 0)
    assert is_due_in(job, 10)
    assert attempt_of(job).outcome == "RELEASED"
    assert job.reason.startswith("No task registered as 'shop.gone'. Put back since ")
    long_ago = timezone.now() - timedelta(minutes=11)
    Job.objects.update(reason=f"{job.reason[:-24]}{long_ago:%Y-%m-%d %H:%M:%S} UTC.")
    job.run_now()
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", "No task registered as 'shop.gone'.")
    assert job.attempts_made.count() == 2


def test_job_of_an_unknown_task_that_was_enqueued_long_ago_is_not_failed_at_once():
    job = insert("shop.gone")
    Job.objects.update(enqueued_at=timezone.now() - timedelta(days=90))
    drain()
    job.refresh_from_db()
    assert (job.status, job.failures) == ("SCHEDULED", 0)


def test_unknown_task_fails_at_once_without_grace(settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    job = insert("shop.gone")
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", "No task registered as 'shop.gone'.")
    assert attempt_of(job).number == 1


def test_task_runs_under_its_earlier_names():
    job = insert("tests.before")
    drain()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", "here")


@task(aliases=("tests.before",))
def now():
    return "here"


# Progress and log


@task
def report_inside_a_transaction(path: str):
    with transaction.atomic():
        current_job().progress(1, 2, "half")
        current_job().log("in the middle")
        tasks.wait_for_go(path)


def test_progress_and_log_show_while_the_job_runs_even_in_a_transaction(tmp_path):
    path = str(tmp_path / "go")
    job = enqueue(report_inside_a_transaction, path)
    with running_worker():
        written = Progress.objects.filter(job=job).exclude(log="")
        progress = wait_for(written.first)
        assert (progress.done, progress.total, progress.message) == (1, 2, "half")
        assert progress.log.endswith(" in the middle\n")
        assert wait_for_status(job, "RUNNING")
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")


@task
def report_a_lot(times: int, seconds: float):
    job = current_job()
    for number in range(1, times + 1):
        job.progress(number, times)
        job.log(f"line {number}")
        time.sleep(seconds / times)


def test_report_that_meets_a_fault_of_the_database_is_stored_later(monkeypatch):
    faults = [psycopg.OperationalError("broken pipe")]
    report = recording.report

    def failing_once(*args):
        if faults:
            raise faults.pop()
        return report(*args)

    monkeypatch.setattr(recording, "report", failing_once)
    job = run(report_a_lot, 20, 0.0)
    assert not faults
    progress = Progress.objects.get(job=job)
    assert (progress.done, progress.total) == (20, 20)
    assert progress.log.count("\n") == 20


def test_reports_are_throttled_and_the_last_one_is_stored_before_the_end():
    begun = time.monotonic()
    with statements_of_workers() as executed:
        job = run(report_a_lot, 500, 0.6)
    seconds = time.monotonic() - begun
    assert job.status == "SUCCESSFUL"
    progress = Progress.objects.get(job=job)
    assert (progress.done, progress.total) == (500, 500)
    assert progress.log.count("\n") == 500
    assert progress.log.endswith(" line 500\n")
    assert 2 <= executed.count("loop report") <= seconds / REPORT_SECONDS + 2


@task
def report_at_the_end():
    current_job().progress(1, 1, "done\0")
    current_job().log("\ud800")


def test_last_report_of_a_short_job_is_there_when_the_job_has_ended():
    for _ in range(20):
        enqueue(report_at_the_end)
    drain()
    messages = Progress.objects.values_list("message", flat=True)
    assert list(messages) == ["done\ufffd"] * 20


@pytest.mark.parametrize("amount", [-1, float("nan"), True, "1", 10**400])
def test_progress_that_is_no_amount_fails_only_its_job(amount):
    ODDITIES["amount"] = lambda: current_job().progress(amount)
    try:
        job = run(return_oddity, "amount")
    finally:
        del ODDITIES["amount"]
    assert (job.status, job.failures) == ("SCHEDULED", 1)


# Signals


def test_signals_are_sent_once_per_job_attempt_and_life(heard):
    job = enqueue(fail_without_backoff)
    drain()
    job.retry()
    drain()
    sent = [(name, status) for name, _, status in heard]
    attempts = [("job_started", "RUNNING")] * 3
    end = [("job_finished", "FAILED")]
    assert sent == [("job_enqueued", "READY"), *attempts, *end, *attempts, *end]


def test_receiver_that_raises_harms_nothing(heard, caplog):
    def refuse(**kwargs):
        raise ValueError("not interested")

    for signal in (signals.job_started, signals.job_finished):
        signal.connect(refuse)
    try:
        assert run(tasks.noop).status == "SUCCESSFUL"
    finally:
        for signal in (signals.job_started, signals.job_finished):
            signal.disconnect(refuse)
    assert "Signal receiver=" in caplog.text
    assert len(heard) == 3


def test_end_of_a_job_is_announced_although_another_row_cannot_be_read(heard):
    unreadable = insert("tests.echo", kwargs='{"value": ' + "9" * 5_000 + "}")
    good = enqueue(tasks.noop)
    drain(slots=1)
    unreadable.refresh_from_db(fields=["status"])
    assert unreadable.status == "FAILED"
    assert ("job_finished", good.pk, "SUCCESSFUL") in heard


def end_with_its_predecessor() -> None:
    linked_job(after=linked_job(after=enqueue(fail_at_once)))


def end_with_a_batch() -> None:
    batch = Batch.objects.create()
    for _ in range(2):
        linked_job(batch=batch, task=fail_at_once.name, max_attempts=1)
    linked_job(after=batch)


def end_behind_a_cancelled_job() -> None:
    first = enqueue(tasks.noop.using(run_after=timedelta(hours=1)))
    linked_job(after=first)
    drain()
    first.cancel()


def expire_in_line() -> None:
    job = enqueue(tasks.noop.using(expires=timedelta(seconds=1)))
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.filter(pk=job.pk).update(expires_at=long_ago)


def be_unreadable() -> None:
    insert("tests.echo", kwargs='{"value": ' + "9" * 5_000 + "}")


@task(max_attempts=1)
def fail_at_once():
    raise ValueError("no")


@pytest.mark.parametrize(
    "end",
    [
        end_with_its_predecessor,
        end_with_a_batch,
        end_behind_a_cancelled_job,
        expire_in_line,
        be_unreadable,
    ],
)
def test_end_of_each_job_is_announced_once_whatever_ends_it(heard, end):
    check_that_ends_are_announced(heard, end)


def check_that_ends_are_announced(heard: list, end: Callable[[], None]) -> None:
    end()
    drain()
    ends = [(id, status) for name, id, status in heard if name == "job_finished"]
    jobs = Job.objects.exclude(run_after__gt=timezone.now(), status="SCHEDULED")
    assert sorted(ends) == sorted(jobs.values_list("pk", "status"))
    assert {status for _, status in ends} & {"CANCELLED", "FAILED"}


# Jobs that act on themselves


@task
def act_on_oneself(verb: str):
    job = Job.objects.get(pk=current_job().id)
    return getattr(job, verb)()


def test_job_that_deletes_its_own_row_is_forgotten_with_a_warning(caplog):
    enqueue(act_on_oneself, "delete")
    loop = drain()
    assert not Job.objects.exists()
    assert "lost: it was rescued, ended or deleted" in caplog.text
    assert loop.finished == 0


def test_job_cannot_retry_itself_while_it_runs():
    job = run(act_on_oneself, "retry")
    assert (job.status, job.return_value) == ("SUCCESSFUL", False)
    assert (job.life, job.attempts) == (1, 1)


def test_job_that_cancels_itself_and_succeeds_is_successful():
    job = run(cancel_oneself)
    assert (job.status, job.return_value) == ("SUCCESSFUL", True)


@task(cancel="cooperative")
def cancel_oneself():
    return Job.objects.get(pk=current_job().id).cancel("enough")


def test_job_that_cancels_itself_and_fails_is_cancelled():
    job = run(cancel_oneself_and_fail)
    assert (job.status, job.failures) == ("CANCELLED", 1)


@task(cancel="cooperative")
def cancel_oneself_and_fail():
    Job.objects.get(pk=current_job().id).cancel("enough")
    raise ValueError("no")


def test_job_that_fails_itself_is_failed_whatever_its_task_returns(heard, caplog):
    job = run(act_on_oneself, "fail")
    assert (job.status, job.reason) == ("FAILED", "Failed by hand.")
    ends = [each for each in heard if each[0] == "job_finished"]
    assert ends == [("job_finished", job.pk, "FAILED")]
    assert "lost: it was rescued, ended or deleted" in caplog.text


@task
def enqueue_more(levels: int):
    if levels:
        enqueue_more.enqueue(levels - 1)
        enqueue_more.enqueue(levels - 1)


def test_jobs_that_jobs_enqueue_run_too():
    enqueue(enqueue_more, 4)
    assert drain().finished == 31
    wait_for_all("SUCCESSFUL")


@task
async def wait_a_little(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return current_job().task_name


def test_async_task_runs_and_knows_its_job():
    assert run(wait_a_little, 0.01).return_value == "tests.wait_a_little"


def test_plain_call_has_no_current_job():
    with pytest.raises(RuntimeError, match="outside of a job"):
        current_job()


def test_job_that_has_ended_leaves_nothing_to_the_garbage_collector(monkeypatch):
    executions = []

    class Noted(ThreadExecution):
        def run(self):
            executions.append(weakref.ref(self))
            return super().run()

    monkeypatch.setattr("pgjobs.worker.slots.executor.ThreadExecution", Noted)
    enqueue(tasks.noop)
    enqueue(tasks.noop)
    gc.collect()
    gc.disable()
    try:
        drain()
        left = [ref() for ref in executions if ref() is not None]
    finally:
        gc.enable()
    assert len(executions) == 2
    assert not left
