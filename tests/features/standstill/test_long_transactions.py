"""A job that is in its transaction for long is named once."""

import re

from pgjobs.features.standstill import chore
from tests import tasks
from tests.processes import running_worker, shared_queue, wait_for, wait_for_pass
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
    assert chore.open_since == {}
