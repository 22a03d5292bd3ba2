"""The log of jobs: no record is made that no handler takes."""

import logging
from collections.abc import Callable

import psycopg
import pytest

from pgjobs import Cancel, Fail, enqueue, task
from pgjobs.base.database_errors import text_of
from pgjobs.models import Job
from pgjobs.worker.job_log import is_heard, logger
from tests import tasks
from tests.processes import drain, shared_queue

pytestmark = shared_queue

PACKAGE = logging.getLogger("pgjobs")
NOWHERE = logging.NullHandler()


def handler(level: int) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setLevel(level)
    return handler


@pytest.fixture
def give(monkeypatch):
    """Gives handlers to a logger; what pgjobs logs goes nowhere else."""

    def give(to: logging.Logger, *handlers: logging.Handler) -> None:
        monkeypatch.setattr(to, "handlers", list(handlers))

    monkeypatch.setattr(PACKAGE, "propagate", False)
    monkeypatch.setattr(logger, "propagate", True)
    logger.setLevel(logging.DEBUG)
    yield give
    logger.setLevel(logging.NOTSET)


Give = Callable[..., None]


def test_level_that_no_handler_takes_is_not_heard(give: Give):
    give(PACKAGE, NOWHERE)
    assert not is_heard(logging.INFO)
    give(PACKAGE, NOWHERE, handler(logging.WARNING))
    assert not is_heard(logging.INFO)
    assert is_heard(logging.WARNING)


def test_handler_of_any_logger_up_to_the_root_hears(give: Give):
    give(PACKAGE, NOWHERE)
    give(logging.root, handler(logging.INFO))
    assert not is_heard(logging.INFO)
    PACKAGE.propagate = True
    assert is_heard(logging.INFO)
    assert not is_heard(logging.DEBUG)
    give(logger, handler(logging.DEBUG))
    assert is_heard(logging.DEBUG)


def test_no_handler_gets_records_below_the_level_of_the_logger(give: Give):
    give(PACKAGE, handler(logging.DEBUG))
    logger.setLevel(logging.WARNING)
    assert not is_heard(logging.INFO)


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_success_is_logged_if_a_handler_takes_it(give: Give, level, monkeypatch):
    give(PACKAGE, NOWHERE, handler(level))
    logger.setLevel(logging.INFO)
    made = []
    make = logger.makeRecord
    monkeypatch.setattr(
        logger, "makeRecord", lambda *args: made.append(args) or make(*args)
    )
    enqueue(tasks.noop)
    assert drain().finished == 1
    assert len(made) == (level == logging.INFO)


@pytest.fixture
def records(give: Give):
    """The records that the loggers of pgjobs hand out."""
    taken: list[logging.LogRecord] = []
    taking = handler(logging.INFO)
    taking.emit = taken.append  # type: ignore[method-assign]
    give(PACKAGE, taking)
    return taken


@task(max_attempts=2, backoff=lambda failures: 0)
def fail_at_length():
    raise ValueError("x" * 20_000_000)


def test_only_the_last_failure_is_an_error_and_has_its_exception(records):
    job = enqueue(fail_at_length)
    drain()
    retry, failure = (each for each in records if each.name == "pgjobs.job")
    assert (retry.levelname, retry.exc_info) == ("WARNING", None)
    assert failure.levelname == "ERROR"
    assert failure.exc_info[0] is ValueError
    assert (failure.job_id, failure.task) == (job.pk, fail_at_length.name)


def test_exception_in_the_log_is_bounded_and_begins_at_the_task(records):
    enqueue(fail_at_length)
    drain()
    (failure,) = (each for each in records if each.levelname == "ERROR")
    text = logging.Formatter().format(failure)
    assert "characters left out" in text
    assert len(text) < 50_000
    first_frame = text.partition("Traceback")[2].splitlines()[1]
    assert first_frame.endswith("in fail_at_length")


# Forged records

FORGED = "x\n2026-11-25 CRITICAL forged\r\x1b[31m\x85\u2028red"


def lines_of(caplog) -> list[str]:
    format = logging.Formatter(
        "BEGIN %(task)s %(message)s", defaults={"task": ""}
    ).format
    return "\n".join(map(format, caplog.records)).splitlines()


@task(name="tests.forge", max_attempts=1)
def forge(how: str):
    if how == "exception":
        raise ValueError(FORGED)
    raise {"fail": Fail, "cancel": Cancel, "retry": ValueError}[how](FORGED)


@pytest.mark.parametrize("how", ["exception", "fail", "cancel", "retry"])
def test_error_forges_no_record(how, caplog, settings):
    options = {"max_attempts": 2} if how == "retry" else {}
    with caplog.at_level(logging.DEBUG, "pgjobs"):
        enqueue(forge.using(**options), how)
        drain()
    assert "forged" in caplog.text
    for line in lines_of(caplog):
        assert line.isprintable(), line
        assert line.startswith(("BEGIN ", "  ", "Traceback ")), line


def test_name_of_a_task_forges_no_record(caplog, settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    with caplog.at_level(logging.DEBUG, "pgjobs"):
        Job.objects.create(task=FORGED)
        drain()
    assert "forged" in caplog.text
    for line in lines_of(caplog):
        assert line.isprintable(), line
        assert line.startswith(("BEGIN ", "  ", "Traceback ")), line


def test_database_error_quotes_no_row():
    detail = (
        'no\nDETAIL:  Failing row contains (1, {"iban": "DE89\nDE90"}).\nHINT:  Try.'
    )
    assert text_of(psycopg.DataError(detail)) == "no\n  HINT:  Try."
    detail = "no\nDETAIL:  Key (unique_key)=(DE89) already exists."
    assert text_of(psycopg.DataError(detail)) == "no"
    assert text_of(psycopg.DataError("")) == "DataError"
