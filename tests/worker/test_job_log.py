"""The log of jobs: no record is made that no handler takes."""

import logging
from collections.abc import Callable

import pytest

from pgjobs import enqueue
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
