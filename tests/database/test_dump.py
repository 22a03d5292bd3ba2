"""Rows that are dumped, without the tables, and loaded again."""

from datetime import datetime

import pytest
from django.core.management import call_command

from pgjobs import chain, group
from pgjobs.models import Batch, Job, Predecessor, Step
from tests.actors import Hand, admit, execute, statuses
from tests.tasks import noop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]


def rows_of(model) -> list[dict]:
    """Return the rows; of a time only whether there is one: JSON keeps less of it."""
    return [
        {name: isinstance(value, datetime) or value for name, value in row.items()}
        for row in model.objects.order_by("pk").values()
    ]


def test_dump_of_data_alone_goes_back_in(tmp_path):
    first, *_ = chain(
        noop.bind(), group([noop.bind(), noop.bind()]), noop.using(lock="door").bind()
    ).enqueue()
    hand = Hand()
    claimed = hand.claim_one()
    Step.objects.create(
        job=first, life=1, name="half", attempt=1, finished_at=first.enqueued_at
    )
    hand.set_back(claimed, "RETRY", "Once more.")
    Job.objects.filter(pk=noop.enqueue().pk).cancel()
    admit()
    before = {model: rows_of(model) for model in (Job, Batch, Predecessor, Step)}
    assert all(before.values())
    dump = str(tmp_path / "dump.json")
    call_command("dumpdata", "pgjobs", output=dump)
    execute("TRUNCATE pgjobs_job CASCADE")
    assert not Batch.objects.exists()
    call_command("loaddata", dump, verbosity=0)
    for model, rows in before.items():
        assert rows_of(model) == rows
    hand = Hand("another")
    while claimed := hand.claim():
        assert hand.succeed(claimed[0])
    assert statuses() == ["SUCCESSFUL"] * 4 + ["CANCELLED"]
