"""The recorder stores what ends, and keeps what it cannot store: without a loop."""

import logging
from collections import deque
from collections.abc import Iterator
from math import inf
from time import monotonic
from types import SimpleNamespace

import psycopg
import pytest
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Attempt, Job
from pgjobs.models.progress import Progress
from pgjobs.queue import recording
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Completed, Success, Unsuccessful
from pgjobs.tasks.running_job import RunningJob
from pgjobs.worker import recorder as module
from pgjobs.worker.in_flight import InFlight
from pgjobs.worker.observer import AttemptEnd, WorkerObserver
from pgjobs.worker.options import WorkerOptions
from pgjobs.worker.recorder import REPORT_SECONDS, Recorder
from pgjobs.worker.upkeep.chore import NOTHING, Effects
from tests import tasks
from tests.actors import Hand, Session, admit, session
from tests.processes import STATEMENTS, shared_queue

pytestmark = shared_queue

LOCK_THE_ROW = "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"
# What records a failure: the first stores all of it, each next one less.
RECORD = (*recording.parts(), "record_without_attempt")


class Slots:
    """An executor whose jobs the test ends."""

    def __init__(self) -> None:
        self.outcomes: deque = deque()
        self.reporting: dict[int, RunningJob] = {}

    def take_outcomes(self) -> list:
        taken = list(self.outcomes)
        self.outcomes.clear()
        return taken

    def take_reports(self) -> list:
        jobs = list(self.reporting.values())
        self.reporting.clear()
        return [(job, report) for job in jobs if (report := job.take_report())]

    def reported(self, job: RunningJob) -> None:
        self.reporting[job.lease_token] = job


class Announced(list):
    """An announcer that keeps the ends."""

    def ended(self, ends: list[AttemptEnd]) -> None:
        self.extend((end.job.id, end.status) for end in ends)


class Connection:
    """A session of a worker, on which the test makes statements fail."""

    def __init__(self, own: Session):
        self.own = own
        self.failing: dict[str, Exception] = {}  # by the names of statements
        self.refused = ""  # a text that the database takes for no statement's data
        self.sent: list[str] = []

    def execute(self, query: str, parameters: dict) -> list[tuple]:
        name = STATEMENTS.get(query, query)
        self.sent.append(name)
        if error := self.failing.get(name):
            raise error
        if self.refused and self.refused in str(parameters):
            raise psycopg.errors.UntranslatableCharacter("refused")
        return self.own.execute(query, parameters)


class Desk:
    """A recorder, the jobs that its worker holds, and what others hear of it."""

    def __init__(self, own: Session):
        self.hand = Hand()
        self.connection = Connection(own)
        self.slots, self.in_flight = Slots(), InFlight()
        self.announced, self.effects = Announced(), NOTHING
        self.recorder = Recorder(
            SimpleNamespace(
                connection=self.connection, id=self.hand.id, options=WorkerOptions()
            ),
            self.slots,
            self.in_flight,
            (WorkerObserver(),),
            self.announced,
            self.note,
        )

    def note(self, effects: Effects) -> None:
        self.effects |= effects

    def claim(self, number: int = 1) -> list[ClaimedJob]:
        jobs = self.hand.claim(number)
        assert len(jobs) == number
        self.in_flight.claim(jobs)
        return jobs

    def begin(self, *bound) -> list[ClaimedJob]:
        """Enqueue these jobs, and hold them."""
        enqueue_many(list(bound))
        return self.claim(len(bound))

    def end(self, *outcomes) -> None:
        """Let jobs end so, and the recorder store what it can."""
        self.slots.outcomes.extend(outcomes)
        self.run_pass()

    def run_pass(self) -> None:
        self.recorder.gather()
        self.recorder.record()

    def run_pass_after_pauses(self) -> None:
        """As a loop that sleeps until the recorder's next event."""
        self.recorder.backoff.retry_at = self.recorder.ask_for_locked_at = 0.0
        self.run_pass()

    def store(self, *successes: Success) -> None:
        """Let jobs succeed whose successes a claim could not store."""
        self.in_flight.put(successes)
        self.recorder.record_successes(successes)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with session() as own:
        own.execute("SET lock_timeout = '50ms'")
        yield Desk(own)


def success(job: ClaimedJob) -> Success:
    return Success(job.id, job.lease_token, None)


def failure(job: ClaimedJob, reason: str = "It failed.", **values) -> Unsuccessful:
    return Unsuccessful(job.id, job.lease_token, "FAIL", reason, **values)


def stored(job: ClaimedJob) -> Job:
    return Job.objects.get(pk=job.id)


def end_of(job: ClaimedJob) -> str:
    return stored(job).status


# What is stored


def test_job_that_fails_ends_in_one_statement(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.end(failure(job))
    assert (end_of(job), stored(job).reason) == ("FAILED", "It failed.")
    assert desk.connection.sent == [RECORD[0]]
    assert desk.announced == [(job.id, "FAILED")]
    assert desk.in_flight.is_empty


def test_success_is_left_to_the_claim(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.end(success(job))
    assert desk.connection.sent == []
    assert desk.in_flight.recordable_as(Success) == [success(job)]
    assert desk.recorder.next_event <= monotonic()


def test_success_that_the_claim_could_not_store_is_stored_alone(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.store(success(job))
    assert end_of(job) == "SUCCESSFUL"
    assert desk.connection.sent == ["record_successes"]


def test_atomic_job_ends_without_a_statement(desk):
    """Its own transaction has recorded it. The job may have enqueued others there."""
    (job,) = desk.begin(tasks.noop.bind())
    desk.end(Completed(job.id, job.lease_token))
    assert desk.connection.sent == []
    assert desk.announced == [(job.id, "SUCCESSFUL")]
    assert desk.effects.ready


def test_only_jobs_that_have_finished_are_counted(desk):
    first, second = desk.begin(tasks.noop.bind(), tasks.noop.bind())
    desk.end(failure(first), failure(second)._replace(verdict="RETRY", delay=60))
    assert desk.recorder.finished == 1
    assert [status for _, status in desk.announced] == ["FAILED", "SCHEDULED"]


def test_loop_learns_that_a_job_may_soon_be_due_again(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.end(failure(job)._replace(verdict="RETRY", delay=60))
    assert desk.effects.scheduled


def test_loop_learns_that_others_may_have_waited_for_the_end(desk):
    enqueue(tasks.noop.using(lock="door"))
    (job,) = desk.claim()
    desk.end(failure(job))
    assert desk.effects.waiting


# What became of the job meanwhile


def test_outcome_of_a_job_that_was_taken_away_is_void(desk, caplog):
    (job,) = desk.begin(tasks.noop.bind())
    Job.objects.filter(pk=job.id).update(lease_token=job.lease_token + 1)
    desk.end(failure(job))
    assert end_of(job) == "RUNNING"
    assert desk.announced == [(job.id, None)]
    assert "lost: it was rescued, ended or deleted meanwhile" in caplog.text
    assert desk.recorder.finished == 0


def test_outcome_that_was_stored_although_its_answer_was_lost_counts_once(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.hand.record(failure(job))
    desk.end(failure(job))
    assert desk.announced == [(job.id, "FAILED")]
    assert desk.recorder.finished == 1
    assert Attempt.objects.filter(job=job.id).count() == 1


def test_outcome_waits_while_the_worker_cannot_ask_what_became_of_its_job(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.hand.record(failure(job))
    desk.connection.failing["in_doubt"] = psycopg.errors.UndefinedTable("no table")
    desk.end(failure(job))
    assert desk.announced == []
    desk.connection.failing.clear()
    desk.run_pass_after_pauses()
    assert desk.announced == [(job.id, "FAILED")]


# What cannot be stored


def test_success_that_cannot_be_stored_makes_its_job_fail_alone(desk, refuse):
    refuse("NEW.status = 'SUCCESSFUL'")
    jobs = desk.begin(tasks.noop.bind(), tasks.echo.bind(1), tasks.noop.bind())
    desk.store(*map(success, jobs))
    assert [end_of(job) for job in jobs] == ["SUCCESSFUL", "FAILED", "SUCCESSFUL"]
    assert stored(jobs[1]).reason.startswith("Its outcome cannot be stored: refused")


def test_failure_whose_characters_cannot_be_stored_is_stored_with_escapes(desk, refuse):
    refuse("octet_length(NEW.reason) > length(NEW.reason)")
    (job,) = desk.begin(tasks.echo.bind(1))
    desk.end(failure(job, "naïve"))
    assert (end_of(job), stored(job).reason) == ("FAILED", r"na\xe")


def test_outcome_that_cannot_be_stored_at_all_is_kept_for_later(desk, refuse, caplog):
    refuse("NEW.status <> 'RUNNING'")
    bad, good = desk.begin(tasks.echo.bind(1), tasks.noop.bind())
    desk.end(failure(bad), failure(good))
    assert end_of(good) == "FAILED"
    assert desk.in_flight.failing == {bad.lease_token}
    assert f"jobs={bad.id}: refused" in caplog.text
    later = desk.recorder.backoff.retry_at
    assert 0.0 < desk.recorder.next_event == later < inf, "it would only fail again"


def test_outcome_is_tried_again_after_a_pause_that_grows(desk):
    (job,) = desk.begin(tasks.noop.bind())
    for name in RECORD:
        desk.connection.failing[name] = psycopg.errors.UndefinedTable("no table")
    desk.end(failure(job))
    desk.connection.sent.clear()
    desk.run_pass()
    assert desk.connection.sent == [], "the pause lasts"
    first = desk.recorder.backoff.retry_at - monotonic()
    desk.recorder.backoff.since -= 2 * first  # it has failed for longer by then
    desk.run_pass_after_pauses()
    assert desk.recorder.backoff.retry_at - monotonic() > first
    desk.connection.failing.clear()
    desk.run_pass_after_pauses()
    assert end_of(job) == "FAILED"
    assert desk.recorder.next_event == inf


def test_outcome_whose_row_is_locked_leaves_the_others_alone(desk):
    held, free = desk.begin(tasks.noop.bind(), tasks.noop.bind())
    with session() as other:
        other.begin()
        other.execute(LOCK_THE_ROW, {"id": held.id})
        desk.end(failure(held), failure(free))
        assert desk.in_flight.locked == {held.lease_token}
        assert desk.recorder.next_event <= monotonic(), "the other waits for nothing"
        desk.run_pass()
        assert end_of(free) == "FAILED"
        assert desk.recorder.next_event == desk.recorder.ask_for_locked_at
        desk.run_pass_after_pauses()
        assert end_of(held) == "RUNNING"
        other.commit()
    desk.run_pass_after_pauses()
    assert end_of(held) == "FAILED"
    assert desk.in_flight.is_empty


def test_worker_that_loses_its_database_keeps_every_outcome(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.connection.failing[RECORD[0]] = psycopg.OperationalError("no connection")
    with pytest.raises(psycopg.OperationalError):
        desk.end(failure(job))
    assert desk.in_flight.unrecorded == [failure(job)]
    desk.connection.failing.clear()
    desk.run_pass()
    assert end_of(job) == "FAILED"


# Reports


def running(desk: Desk, job: ClaimedJob) -> RunningJob:
    """Return a job as its own code sees it."""
    return RunningJob(
        id=job.id,
        task_name=job.task,
        queue_name=job.queue_name,
        attempt=1,
        max_attempts=1,
        life=1,
        lease_token=job.lease_token,
        enqueued_at=timezone.now(),
        host=desk.slots,
    )


def shown(job: ClaimedJob) -> tuple[float | None, str]:
    """Return what people see of the progress of a job, and of its log."""
    progress = Progress.objects.filter(job_id=job.id).first()
    return (progress.done, progress.log) if progress else (None, "")


def test_reports_are_stored_at_most_four_times_a_second(desk):
    (job,) = desk.begin(tasks.noop.bind())
    own = running(desk, job)
    for number in range(1, 4):
        own.progress(number, 3)
        desk.run_pass()
    assert desk.connection.sent == ["report"]
    assert shown(job)[0] == 1
    assert monotonic() < desk.recorder.next_event <= monotonic() + REPORT_SECONDS
    desk.recorder.next_report = 0.0
    desk.run_pass()
    assert shown(job)[0] == 3


def test_last_report_of_a_job_is_stored_before_its_end(desk):
    (job,) = desk.begin(tasks.noop.bind())
    desk.recorder.next_report = inf
    running(desk, job).progress(3, 3)
    desk.end(failure(job))
    assert desk.connection.sent == ["report", RECORD[0]]
    assert shown(job)[0] == 3


def test_report_that_cannot_be_stored_is_stored_with_the_next_one(desk):
    (job,) = desk.begin(tasks.noop.bind())
    own = running(desk, job)
    desk.connection.failing["report"] = psycopg.errors.UndefinedTable("no table")
    own.log("first")
    desk.run_pass()
    desk.connection.failing.clear()
    own.log("second")
    desk.run_pass()
    assert shown(job)[1] == "", "it pauses after an error"
    desk.recorder.next_report = 0.0
    desk.run_pass()
    lines = shown(job)[1].splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["first", "second"]


def test_report_that_the_database_refuses_is_lost_alone(desk, caplog):
    bad, good = desk.begin(*[tasks.noop.bind()] * 2)
    desk.connection.refused = "unspeakable"
    running(desk, bad).progress(1, 2, "unspeakable")
    running(desk, good).progress(1, 2, "fine")
    desk.run_pass()
    assert [shown(bad)[0], shown(good)[0]] == [None, 1]
    assert f"Job id={bad.id}: its report cannot be stored: refused" in caplog.text


# Gathering


def test_recorder_waits_a_moment_only_while_other_slots_may_end_soon(desk, monkeypatch):
    slept = []
    monkeypatch.setattr(module, "sleep", slept.append)
    jobs = desk.begin(*[tasks.noop.bind()] * 3)
    desk.recorder.gather()
    assert not slept, "nothing has ended"
    desk.end(failure(jobs[0]))
    assert len(slept) == 1
    desk.end(failure(jobs[1]), failure(jobs[2]))
    assert len(slept) == 1, "all have ended"


def test_end_is_logged_with_its_traceback_only_if_it_is_the_last(desk, caplog):
    caplog.set_level(logging.INFO, "pgjobs")
    first, second = desk.begin(tasks.noop.bind(), tasks.noop.bind())
    ends = {"traceback": "Traceback: here", "exception_class": "ValueError"}
    desk.end(
        failure(first, **ends)._replace(verdict="RETRY", delay=60),
        failure(second, **ends),
    )
    assert caplog.text.count("Traceback: here") == 1
    assert f"Job id={second.id}" in caplog.text


def test_admission_is_left_to_the_loop(desk):
    """The recorder stores the end; the job behind it is admitted afterwards."""
    enqueue_many([tasks.noop.using(lock="door").bind() for _ in range(2)])
    (job,) = desk.claim()
    desk.end(failure(job))
    assert Job.objects.waiting().count() == 1
    admit()
    assert Job.objects.ready().count() == 1
