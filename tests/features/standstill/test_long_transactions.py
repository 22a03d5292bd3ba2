"""A job that is in its transaction for long is named once."""

import re
from math import inf

import pytest

from pgjobs.features.standstill import chore
from pgjobs.worker.slots import atomic
from tests import tasks
from tests.processes import (
    running_worker,
    shared_queue,
    wait_for,
    wait_for_pass,
    wait_for_status,
)
from tests.support import isolated_tasks as isolated
from tests.worker.test_atomic import effects, held, path  # noqa: F401

pytestmark = shared_queue


def test_long_transaction_gets_one_warning_while_it_lasts(path, caplog, monkeypatch):  # noqa: F811
    monkeypatch.setattr(chore, "LONG_SECONDS", 0)
    with running_worker() as loop:
        held(path)
        warning = loop.upkeep["long_transactions"]
        for _ in range(2):
            warning.due = 0.0
            loop.bell.ring()
            wait_for(lambda: warning.due, "it has looked")
        warnings = re.findall(r"has been in its transaction for \d+ s", caplog.text)
        assert len(warnings) == 1
        tasks.let_go(path)


def test_short_transaction_gets_no_warning(path, caplog):  # noqa: F811
    with running_worker() as loop:
        held(path)
        loop.upkeep["long_transactions"].due = 0.0
        wait_for_pass(loop)
        tasks.let_go(path)
    assert "in its transaction" not in caplog.text
    assert atomic.open_since == {}


@pytest.mark.parametrize("task", [isolated.hold_in_transaction, isolated.hold_in_hook])
def test_transaction_in_a_process_of_its_own_counts_until_it_commits(
    task, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(chore, "LONG_SECONDS", 0)
    held_at = str(tmp_path / "held")
    is_open = task is isolated.hold_in_transaction
    with running_worker() as loop:
        loop.upkeep["long_transactions"].due = inf  # not before the hook
        job = task.enqueue(held_at)
        wait_for(lambda: tasks.lines(held_at), "it has begun")
        wait_for(lambda: bool(atomic.open_since) == is_open)
        loop.upkeep["long_transactions"].due = 0.0
        wait_for_pass(loop)
        loop.bell.ring()
        wait_for(lambda: loop.upkeep["long_transactions"].due, "it has looked")
        tasks.let_go(held_at)
        wait_for_status(job, "SUCCESSFUL")
    assert ("in its transaction" in caplog.text) == is_open
    assert atomic.open_since == {}
