"""What `enqueue` and `enqueue_many` return: instances of the new rows."""

import gc

import pytest

from pgjobs.exceptions import InvalidTask
from pgjobs.queue.instances import no_collection
from pgjobs.tasks import enqueue_many
from tests.actors import fields_of
from tests.tasks import echo, noop

pytestmark = pytest.mark.django_db


@pytest.fixture
def collections():
    """The garbage collections since the test began."""
    begun = []

    def note(phase, info):
        if phase == "start":
            begun.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


def test_many_instances_are_made_without_a_collection_for_each_few(collections):
    bound = [noop.bind() for _ in range(5_000)]
    collections.clear()
    jobs = enqueue_many(bound)
    assert len(jobs) == 5_000
    assert len(collections) <= 5  # 43 if nothing held them back
    assert gc.isenabled()


def test_error_leaves_the_garbage_collector_as_it_was():
    with pytest.raises(ZeroDivisionError), no_collection():
        assert not gc.isenabled()
        1 / 0  # noqa: B018
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_instances_of_one_call_share_nothing_that_can_change():
    one, other = enqueue_many([echo.bind([]), echo.bind([])])
    one.args.append(1)
    one.kwargs["value"].append(1)
    one.status = "changed"
    assert other.args == []
    assert other.kwargs == {"value": []}
    assert other.status == "READY"
    stored = type(other).objects.get(pk=other.pk)
    assert fields_of(other) == fields_of(stored)


def test_enqueue_many_of_a_single_job_says_what_it_takes():
    with pytest.raises(InvalidTask, match="takes a list of jobs"):
        enqueue_many(noop.bind())
