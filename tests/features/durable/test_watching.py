"""What those who watch see of tasks that wait: nothing that is late or stands still."""

from datetime import timedelta

import pytest

from pgjobs.features.durable.queue import wake
from pgjobs.reports.status import overview
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import done
from tests.processes import shared_queue

pytestmark = shared_queue
DAY = timedelta(days=1)


def waits(job):
    job.wait_for("question", bool, timeout=DAY)


def sleeps(job):
    job.sleep("nap", DAY)


ENDS = {
    "answer": lambda job: job.answer("question", True),
    "by hand": lambda job: job.mark_step("question", True),
}


def make_older() -> None:
    """Let three days pass for all jobs, but for when they are due."""
    execute(
        "UPDATE pgjobs_job SET enqueued_at = enqueued_at - interval '3 days',"
        " started_at = started_at - interval '3 days',"
        " last_attempted_at = last_attempted_at - interval '3 days'"
    )


@pytest.mark.parametrize("body", [waits, sleeps])
@pytest.mark.parametrize("task", [bodies.plain, bodies.locked, bodies.ordered], ids=str)
def test_job_whose_task_waits_is_no_problem_and_no_oldest_job(body, task):
    done(body, task)
    make_older()
    seen = overview("default")
    (queue,) = seen.queues
    assert (queue.oldest_ready_seconds, queue.oldest_arrived_seconds) == (None, None)
    assert queue.arrived == 0
    assert seen.problems == []


@pytest.mark.parametrize("end", ["answer", "by hand"])
def test_wait_is_no_time_in_the_queue(end):
    job = done(waits)
    make_older()
    assert ENDS[end](job)
    while wake(execute)[0]:
        pass
    job.refresh_from_db()
    assert job.status == "READY"
    (queue,) = overview("default").queues
    assert queue.oldest_ready_seconds < 60
