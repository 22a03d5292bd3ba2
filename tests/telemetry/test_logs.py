"""A project's own log records: which job they belong to, and those kept with it."""

import asyncio
import logging
import subprocess
import sys

import pytest

from pgjobs import current_job, enqueue, task
from pgjobs.exceptions import InvalidTask
from pgjobs.logging import NAMES, JobFilter
from pgjobs.models import Job, Progress
from pgjobs.queue.recording import LONGEST_LOG
from pgjobs.worker.slots import kept_logs
from tests import tasks
from tests.processes import (
    drain,
    run,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
)
from tests.support.checks import found
from tests.telemetry import hooks

pytestmark = shared_queue

logger = logging.getLogger("shop.orders")
records: list[logging.LogRecord] = []


@pytest.fixture(autouse=True)
def all_levels(caplog):
    """As a project that has set the level of its root logger."""
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def collected():
    """The records of the project's logger, through a handler with the filter."""
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    handler.addFilter(JobFilter())
    logger.addHandler(handler)
    records.clear()
    yield records
    logger.removeHandler(handler)


class Hostile:
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


@task(keep_logs="INFO")
def tell_kept(text: str = "hello", times: int = 1) -> None:
    logger.debug("not kept")
    for _ in range(times):
        logger.info("told %s", text)


@task(keep_logs="INFO")
async def tell_async() -> None:
    logger.info("in the coroutine")
    await asyncio.to_thread(logger.info, "in a thread")


@task(keep_logs="INFO", atomic=True)
def tell_and_hold(path: str) -> None:
    logger.info("before the end")
    tasks.wait_for_go(path)


@task(keep_logs="INFO", max_attempts=1)
def tell_of_error() -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logger.exception("caught %s")


@task(keep_logs="INFO")
def tell_rubbish() -> None:
    logger.info("\0 and \ud800")
    logger.info("x" * 10_000_000)
    logger.info("%d", "no number")
    logger.info(Hostile())
    logger.warning("the last line")


@task
def tell_plainly() -> None:
    logger.info("told")
    logger.info("by hand", extra={"task": "own"})


def log_of(job: Job) -> str:
    return Progress.objects.get(job=job).log


# Saying which job


def test_records_of_a_job_say_which(collected, settings):
    settings.PGJOBS = {"META": ["tests.telemetry.hooks.correlation"]}
    token = hooks.correlation.set("c1")
    try:
        job = run(tell_plainly)
    finally:
        hooks.correlation.reset(token)
    first, second = collected
    known = [getattr(first, name) for name in NAMES]
    assert known == [job.pk, "tests.tell_plainly", "default", 1, "c1"]
    assert (second.job_id, second.task) == (job.pk, "own")


def test_records_outside_of_jobs_pass_the_filter_too(collected):
    logger.info("no job")
    assert [getattr(collected[0], name) for name in NAMES] == [None] * 5


def test_filter_can_be_named_in_the_settings_of_logging():
    """Django reads them before there are any apps."""
    code = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["pgjobs"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}},
    LOGGING={
        "version": 1,
        "filters": {"job": {"()": "pgjobs.logging.JobFilter"}},
        "formatters": {"all": {"format": "%(message)s job=%(job_id)s"}},
        "handlers": {
            "out": {
                "class": "logging.StreamHandler",
                "filters": ["job"],
                "formatter": "all",
            }
        },
        "root": {"handlers": ["out"], "level": "INFO"},
    },
)
django.setup()
import logging
logging.getLogger("shop").info("set up")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.stderr.strip().endswith("set up job=None")


# Keeping


def test_records_are_kept_with_the_job():
    log = log_of(run(tell_kept))
    assert "INFO shop.orders: told hello" in log
    assert "not kept" not in log
    assert log.count("\n") == 1


def test_records_of_coroutines_and_their_threads_are_kept():
    log = log_of(run(tell_async))
    assert "in the coroutine" in log
    assert "in a thread" in log


def test_records_are_visible_while_the_transaction_of_the_job_is_open(tmp_path):
    path = str(tmp_path / "job")
    job = enqueue(tell_and_hold, path)
    with running_worker():
        kept = Progress.objects.filter(job=job, log__contains="before the end")
        try:
            wait_for(kept.exists, "the record is stored")
            job.refresh_from_db()
            assert job.status == "RUNNING"
        finally:
            tasks.let_go(path)


def test_record_of_an_exception_is_kept_with_its_traceback():
    log = log_of(run(tell_of_error))
    assert "ERROR shop.orders" in log
    assert "ValueError: inner" in log


def test_rubbish_in_records_is_cut_and_stored(monkeypatch):
    # pytest's own handlers would raise.
    monkeypatch.setattr(logging.root, "handlers", [kept_logs.handler])
    monkeypatch.setattr(kept_logs.handler, "is_installed", True)
    job = run(tell_rubbish)
    assert job.status == "SUCCESSFUL"
    log = log_of(job)
    assert "\ufffd and \ufffd" in log
    assert "characters left out" in log
    assert "the last line" in log
    assert len(log) < 10_000


def test_log_is_bounded_however_much_a_job_says():
    log = log_of(run(tell_kept, text="x" * 500, times=5_000))
    assert len(log) <= LONGEST_LOG
    assert log.endswith("x\n")


def test_kept_records_cost_as_many_statements_as_one_report():
    """However many there are: the loop stores them together."""
    with statements_of_workers() as executed:
        enqueue(tell_kept, times=500)
        drain()
    assert sum("report" in each for each in executed) <= 3


def test_setting_keeps_the_records_of_all_tasks(settings):
    settings.PGJOBS = {"KEEP_LOGS": "INFO"}
    assert "told" in log_of(run(tell_plainly))


def test_without_it_nothing_is_kept():
    run(tell_plainly)
    assert not Progress.objects.exists()


def test_records_of_pgjobs_itself_are_not_kept(settings):
    settings.PGJOBS = {"KEEP_LOGS": "DEBUG"}
    run(tasks.noop)
    assert not Progress.objects.exists()


@task(keep_logs="INFO")
def log_by_both() -> None:
    logger.info("first")
    current_job().log("second")


def test_kept_records_stand_among_the_lines_of_the_job():
    log = log_of(run(log_by_both))
    assert log.index("first") < log.index("second")


@pytest.mark.parametrize("level", ["LOUD", 20, "", ["INFO"]])
def test_level_must_be_one(level):
    with pytest.raises(InvalidTask, match="keep_logs must be a level such as 'INFO'"):
        task(keep_logs=level)(tell_kept.function)


def test_level_in_the_settings_must_be_one(settings):
    settings.PGJOBS = {"KEEP_LOGS": "LOUD"}
    assert "must be a level such as 'INFO'" in found()["pgjobs.E001"]


def test_check_warns_of_a_level_that_no_logger_makes(settings, caplog):
    assert found() == {}
    caplog.set_level(logging.WARNING)
    settings.PGJOBS = {"KEEP_LOGS": "INFO"}
    assert "no logger makes any of that level" in found()["pgjobs.W065"]
