"""What producers write down: only what was committed is acknowledged."""

from contextlib import suppress
from random import Random
from types import SimpleNamespace

import pytest
from django.db import connection, transaction

from chaos.journal import ACKNOWLEDGED, IN_DOUBT, Journal, transactions_in
from chaos.players import Producer
from pgjobs import enqueue
from pgjobs.models import Job
from tests.processes import shared_queue
from tests.tasks import echo

pytestmark = shared_queue


def plain(marks, random):
    return [enqueue(echo, mark).pk for mark in marks]


def cut_off_in_a_savepoint(marks, random):
    """Lose the connection where Django notices it, and raises nothing."""
    jobs = plain(marks, random)
    with suppress(ValueError), transaction.atomic():
        connection.connection.close()
        raise ValueError
    return jobs


@pytest.mark.parametrize(
    ("place", "outcome", "number"),
    [(plain, ACKNOWLEDGED, 1), (cut_off_in_a_savepoint, IN_DOUBT, 0)],
)
def test_producer_acknowledges_what_was_committed(tmp_path, place, outcome, number):
    producer = Producer("producer0", Journal(tmp_path / "producer0.journal"), seed=1)
    producer.random = Random(3)  # rolls nothing back on purpose
    # The module of the real ones declares tasks, with a schedule.
    producer.orders = [SimpleNamespace(kind="plain", number=1, place=place)]
    producer.act()
    (written,) = transactions_in(tmp_path)
    assert (written.outcome, len(written.ids)) == (outcome, number)
    assert Job.objects.count() == number
