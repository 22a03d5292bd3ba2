"""A worker whose role loses a right runs plain jobs on, and its log names the table."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from pgjobs import current_job, enqueue, enqueue_many, task
from pgjobs.features.roles import command as roles
from pgjobs.models import Attempt, ErrorGroup, Job
from pgjobs.worker.upkeep.chore import LONGEST_PAUSE
from tests import harness
from tests.actors import execute
from tests.processes import running_worker, shared_queue, wait_for
from tests.settings import SCHEMA, TEST_DATABASE
from tests.support.dependent_tasks import refresh_client
from tests.tasks import fail_with, noop

pytestmark = shared_queue

PASSWORD = "secret"
ROLE = f"worker_{TEST_DATABASE}"
SLOTS = 2
SEVERAL = 2 * SLOTS + 1  # fill the slots, and as many outcomes as a worker keeps
SOON = 10.0  # seconds, as promised
GRANT = re.compile(r"GRANT ([A-Z, ()a-z]+) ON\s+(pgjobs_[a-z_, \n]+?)\s+TO")
# Without these nothing can be claimed, or the worker counts as dead.
NEEDED = {
    ("SELECT", "pgjobs_job"),
    ("UPDATE", "pgjobs_job"),
    ("SELECT", "pgjobs_queue"),
    ("SELECT", "pgjobs_worker"),
    ("INSERT", "pgjobs_worker"),
    ("UPDATE", "pgjobs_worker"),
    ("SELECT", "pgjobs_rate"),
}


def rights() -> list[tuple[str, str]]:
    """Return the rights on tables that the role of a worker has."""
    text = roles.grants("worker", "worker", "public")
    return [
        (right.strip(), table.strip())
        for words, tables in GRANT.findall(text)
        for right in re.sub(r"\(.*?\)", "", words).split(",")
        for table in tables.split(",")
    ]


TABLES = sorted({table for _, table in rights()})


@pytest.fixture(autouse=True)
def worker_role(transactional_db) -> Iterator[None]:
    """Let the worker and its jobs connect as a role with no more than it needs."""
    before = dict(connection.settings_dict)
    with harness.role("worker", f"LOGIN PASSWORD '{PASSWORD}'"):
        execute(roles.grants("worker", ROLE, SCHEMA))
        yield
        connection.settings_dict.update(before)


@contextmanager
def worker_of_role() -> Iterator:
    """Run a worker that connects as the role; this thread stays what it is."""
    connection.ensure_connection()
    connection.settings_dict.update(USER=ROLE, PASSWORD=PASSWORD)
    with running_worker(slots=SLOTS, poll=0.5, grace=1) as loop:
        yield loop


@contextmanager
def without(right: str, table: str) -> Iterator[None]:
    """Take a right away for the length of a block."""
    execute(f"REVOKE {right} ON {table} FROM {ROLE}")
    try:
        yield
    finally:
        execute(f"GRANT {right} ON {table} TO {ROLE}")


@task
def report_progress():
    current_job().progress(1, 2, "half")
    current_job().log("half")


def fill_with_all_that_ends() -> list[Job]:
    """Enqueue jobs that end in each way, and more failures than a worker keeps."""
    enqueue_many([noop.using(lock="door").bind() for _ in range(SEVERAL)])
    enqueue_many([report_progress.bind() for _ in range(SEVERAL)])
    return enqueue_many([fail_with.bind("no") for _ in range(SEVERAL)])


def all_are(status: str, jobs: list[Job]) -> bool:
    ids = [job.pk for job in jobs]
    return Job.objects.filter(pk__in=ids, status=status).count() == len(jobs)


def wait_for_all(status: str, jobs: list[Job], timeout: float = SOON) -> None:
    wait_for(lambda: all_are(status, jobs), f"all are {status}", timeout)


@pytest.mark.slow
@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
@pytest.mark.parametrize("table", TABLES)
def test_jobs_run_on_without_a_right(table):
    with worker_of_role() as loop:
        for right, named in rights():
            if named == table and (right, table) not in NEEDED:
                with without(right, table):
                    failing = fill_with_all_that_ends()
                    plain = enqueue_many([noop.bind() for _ in range(SEVERAL)])
                    wait_for_all("SUCCESSFUL", plain)
                    wait_for_all("FAILED", failing)
        assert loop.faults.since is None


# What is stored all the same


def test_attempt_is_stored_without_its_group_of_errors(caplog):
    with worker_of_role(), without("INSERT", "pgjobs_errorgroup"):
        failing = enqueue(fail_with, "no")
        wait_for_all("FAILED", [failing])
    assert Attempt.objects.get(job=failing).message.endswith("no")
    assert not ErrorGroup.objects.exists()
    assert "Jobs end without their groups of errors: permission denied" in caplog.text
    assert "pgjobs_errorgroup" in caplog.text


def test_end_is_stored_without_the_attempt(caplog):
    with worker_of_role(), without("INSERT", "pgjobs_attempt"):
        failing = enqueue(fail_with, "no")
        wait_for_all("FAILED", [failing])
    failing.refresh_from_db()
    assert failing.reason == "ValueError: no"
    assert not Attempt.objects.exists()
    assert "Jobs end without their attempts: permission denied" in caplog.text
    assert "pgjobs_attempt" in caplog.text


def test_outcomes_that_need_the_right_wait_for_it_and_others_do_not(tmp_path, caplog):
    path = str(tmp_path / "notes")
    with worker_of_role():
        with without("INSERT", "pgjobs_prerequisite"):
            # Their success is stored for those that may depend on them.
            needed = enqueue_many(
                [refresh_client.bind(path, client) for client in range(2 * SEVERAL)]
            )
            wait_for(lambda: "pgjobs_prerequisite" in caplog.text, "it is refused")
            failing = fill_with_all_that_ends()
            plain = enqueue_many([noop.bind() for _ in range(SEVERAL)])
            wait_for_all("SUCCESSFUL", plain)
            wait_for_all("FAILED", failing)
            assert not all_are("SUCCESSFUL", needed)
        wait_for_all("SUCCESSFUL", needed, LONGEST_PAUSE + SOON)


@pytest.mark.slow
@pytest.mark.parametrize(("right", "table"), sorted(NEEDED))
def test_worker_names_what_it_cannot_do_without(right, table, caplog):
    with worker_of_role() as loop:
        with without(right, table):
            job = enqueue(noop)
            wait_for(
                lambda: f"permission denied for table {table}" in caplog.text,
                "it says so",
            )
        wait_for_all("SUCCESSFUL", [job])
        assert loop.phase == "running"
