"""Locks, limits, unique keys, chains, batches and paused queues, all at once."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from pgjobs import chain, enqueue, group
from pgjobs.models import Batch, Job, Queue
from tests.actors import admit, execute
from tests.machines.test_flow_control_machine import KEYS, FlowControlMachine
from tests.tasks import noop

LINKS = st.fixed_dictionaries(
    {},
    optional={
        "after_failure": st.just("run"),
        "unique_key": st.sampled_from("xy"),
        "unique_for": st.sampled_from(["unfinished", "waiting"]),
        "on_conflict": st.sampled_from(["return", "replace", "skip"]),
        "queue_name": st.sampled_from(["default", "slow"]),
    },
)
# A job that may run although a link to a predecessor is still open.
ADMITTED_TOO_EARLY = """
SELECT job.id FROM pgjobs_job AS job JOIN pgjobs_predecessor ON job_id = job.id
WHERE is_open AND status IN ('READY', 'RUNNING')
"""
# A job that waits for predecessors although all its links are closed.
WAITS_FOR_NO_PREDECESSOR = """
SELECT id FROM pgjobs_job AS job
WHERE line = 'predecessor' AND NOT EXISTS (
    SELECT FROM pgjobs_predecessor WHERE job_id = job.id AND is_open
)
"""
# An open link of an unfinished job to a predecessor or batch that has ended.
LEFT_OPEN = """
SELECT link.* FROM pgjobs_predecessor AS link
JOIN pgjobs_job AS job ON job.id = link.job_id
WHERE is_open AND job.finished_at IS NULL AND NOT EXISTS (
    SELECT FROM pgjobs_job AS other
    WHERE other.finished_at IS NULL
        AND (other.id = link.predecessor_id OR other.batch_id = link.batch_id)
)
"""
# A job that needs a success and ran without one, and was not retried by hand.
AFTER_FAILURE = """
SELECT job.id FROM pgjobs_predecessor AS link
JOIN pgjobs_job AS job ON job.id = link.job_id
JOIN pgjobs_job AS other ON other.id = link.predecessor_id
WHERE link.needs = 'success' AND job.attempts > 0 AND job.life = 1
    AND other.life = 1 AND other.status <> 'SUCCESSFUL'
"""
KEPT_TWICE = """
SELECT unique_key FROM pgjobs_job
WHERE unique_key IS NOT NULL
    AND pgjobs_holds_key(unique_for, unique_until, status, attempts, finished_at)
GROUP BY unique_key, unique_for HAVING count(*) > 1
"""


class Flow(FlowControlMachine):
    def __init__(self):
        super().__init__()
        for model in (Queue, Batch):
            model.objects.all().delete()
        self.queue = Queue.objects.create(name="slow")

    def some_task(self, data):
        links = data.draw(LINKS)
        if "unique_key" not in links:
            links.pop("unique_for", None)
            links.pop("on_conflict", None)
        kind = data.draw(st.one_of(st.just({}), KEYS))
        return self.task(kind).using(**links) if kind else noop.using(**links)

    @rule(data=st.data())
    def enqueue_after(self, data):
        jobs = [*Job.objects.order_by("pk"), *Batch.objects.order_by("pk")]
        if jobs:
            after = data.draw(st.lists(st.sampled_from(jobs), min_size=1, max_size=3))
            enqueue(self.some_task(data).using(after=after))

    @rule(data=st.data(), shape=st.sampled_from(["chain", "group", "both"]))
    def enqueue_together(self, data, shape):
        parts = [
            self.some_task(data).bind() for _ in range(data.draw(st.integers(1, 3)))
        ]
        if shape == "chain":
            enqueue(chain(*parts))
        else:
            callback = self.some_task(data).bind()
            batch = group(parts, then=callback, on_failure=callback)
            enqueue(batch if shape == "group" else chain(noop.bind(), batch, *parts))

    @rule(data=st.data())
    def add_to_batch(self, data):
        if batches := list(Batch.objects.order_by("pk")):
            batch = data.draw(st.sampled_from(batches))
            enqueue(self.some_task(data).using(batch=batch))

    @rule(is_paused=st.booleans())
    def pause_or_resume(self, is_paused):
        if is_paused:
            self.queue.pause()
        else:
            self.queue.resume()

    @invariant()
    def everybody_is_told_and_nobody_too_early(self):
        admit()
        assert execute(ADMITTED_TOO_EARLY) == []
        assert execute(WAITS_FOR_NO_PREDECESSOR) == []
        assert execute(LEFT_OPEN) == []
        assert execute(AFTER_FAILURE) == []
        assert execute(KEPT_TWICE) == []


@pytest.mark.django_db
def test_no_job_runs_before_its_predecessors_end_and_none_is_forgotten():
    run_state_machine_as_test(
        Flow,
        settings=settings(
            max_examples=8,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
