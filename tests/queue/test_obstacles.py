"""What operators read about waiting jobs."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from pgjobs import chain, enqueue, group
from pgjobs.models import Job, Queue, Rate
from pgjobs.reports.obstacles import described, moment, obstacles
from pgjobs.reports.status import living_workers
from tests import tasks
from tests.actors import Hand, admit
from tests.operators import ALL_PERMISSIONS, LIST, operator, page_of, text_of

pytestmark = pytest.mark.django_db


locked = tasks.noop.using(lock="door")


def words(job: Job) -> str:
    """Return what the operator reads once a worker has looked at all jobs."""
    admit()
    return described(obstacles("default", [job.pk])[job.pk], living_workers("default"))


def test_waiting_job_names_the_running_one():
    Hand()
    first, second = enqueue(locked), enqueue(locked)
    Hand().claim_one()
    assert words(second) == f"waits for job {first.pk}"


def test_waiting_job_names_the_present_holder_not_the_first_one():
    Hand()
    first, second, third = enqueue(locked), enqueue(locked), enqueue(locked)
    admit()
    first.cancel()
    admit()
    third.refresh_from_db()
    assert third.blocked_by_id == first.pk
    assert words(third) == f"waits for job {second.pk}"


def test_waiting_job_says_when_the_scheduled_one_is_due():
    Hand()
    first = enqueue(locked.using(run_after=timedelta(days=2)))
    second = enqueue(locked)
    due = f"{timezone.localtime(first.run_after):%Y-%m-%d %H:%M}"
    assert words(second) == f"waits for job {first.pk}, due {due}"


def test_moment_of_today_is_a_time_only():
    now = timezone.localtime(timezone.now())
    assert moment(now) == f"{now:%H:%M}"


def test_waiting_job_says_that_no_worker_serves_the_queue_of_the_first():
    Hand(queues="default")
    first = enqueue(locked.using(queue_name="slow"))
    second = enqueue(locked)
    assert words(second) == f"waits for job {first.pk} in queue slow, no worker"


def test_waiting_job_says_that_the_first_waits_itself():
    Hand()
    enqueue(tasks.echo.using(max_running=1, limit_key="k"), 1)
    first = enqueue(locked.using(max_running=1, limit_key="k"))
    second = enqueue(locked)
    assert words(first) == "waits until fewer than 1 job of its limit runs"
    assert words(second) == f"waits for job {first.pk}, which waits itself"


def test_job_over_the_rate_says_until_when():
    Hand()
    task = tasks.noop.using(rate="1/day")
    enqueue(task)
    job = enqueue(task)
    admit()
    opens_at = Rate.objects.get().opens_at
    assert timedelta(hours=23) < opens_at - timezone.now() < timedelta(hours=25)
    assert words(job) == f"waits for its rate, until {moment(opens_at)}"


def test_job_that_no_worker_has_looked_at_says_so():
    Hand()
    job, last = enqueue(locked), enqueue(tasks.noop.using(after=enqueue(locked)))
    for each in (job, last):
        found = obstacles("default", [each.pk])[each.pk]
        assert described(found, []) == "waits for a worker to admit it"


def test_job_in_a_queue_that_is_paused_or_unserved_says_so():
    Hand(excluded="slow")
    Queue.objects.create(name="paused").pause()
    for name in ("slow", "paused"):
        job = enqueue(locked.using(lock=name, queue_name=name))
        assert words(job) == "waits until its queue is served"


def test_admin_shows_the_obstacle_in_the_list_and_on_the_page():
    client = operator(*ALL_PERMISSIONS)
    Hand()
    first, second = enqueue(locked), enqueue(locked)
    admit()
    for address in (LIST, page_of(second)):
        assert f"waits for job {first.pk}" in text_of(client.get(address))
    assert "door" in text_of(client.get(page_of(second)))


def test_keys_are_hidden_from_those_who_may_not_see_arguments():
    client = operator("view_job")
    enqueue(locked)
    assert "door" not in text_of(client.get(page_of(enqueue(locked))))


def test_list_asks_twice_more_however_many_wait(django_assert_max_num_queries):
    client = operator(*ALL_PERMISSIONS)
    Hand()
    for _ in range(10):
        enqueue(locked)
    admit()
    with django_assert_max_num_queries(14):
        client.get(LIST)


def test_jobstatus_names_locks_limits_and_rates_that_jobs_wait_for():
    Hand()
    first = enqueue(locked)
    for _ in range(3):
        enqueue(locked)
    limited = tasks.noop.using(max_running=1)
    for _ in range(2):
        enqueue(limited)
    rated = tasks.noop.using(rate="1/day", rate_key="mail")
    _, second, _ = [enqueue(rated) for _ in range(3)]
    admit()
    printed = StringIO()
    call_command("jobstatus", stdout=printed)
    assert f"lock door: 3 waiting, the first waits for job {first.pk}" in (
        printed.getvalue()
    )
    assert (
        "limit tests.noop: 1 waiting, the first waits until fewer than 1 job of its"
        " limit runs"
    ) in printed.getvalue()
    assert f"rate mail: 2 waiting, the first {words(second)}" in printed.getvalue()


def test_waiting_job_names_the_job_before_it_and_how_many_others():
    Hand()
    one, other = enqueue(tasks.noop), enqueue(tasks.noop)
    batch = enqueue(group([tasks.noop.bind()]))
    last = enqueue(tasks.noop.using(after=[one, other, batch]))
    assert words(last) == f"waits for job {one.pk}, and for 2 more"
    one.succeed()
    assert words(last) == f"waits for job {other.pk}, and for 1 more"
    other.succeed()
    assert words(last) == f"waits for batch {batch.pk}"


def test_waiting_job_says_that_no_worker_serves_the_job_before_it():
    Hand(queues="default")
    first, second = enqueue(
        chain(tasks.noop.using(queue_name="slow").bind(), tasks.noop.bind())
    )
    assert words(second) == f"waits for job {first.pk} in queue slow, no worker"


def test_status_names_chains_and_unfinished_batches():
    first, _, _ = enqueue(chain(*[tasks.noop.bind() for _ in range(3)]))
    batch = enqueue(group([tasks.noop.bind()] * 3, description="Three"))
    enqueue(group([tasks.noop.bind()])).jobs.all().succeed()
    batch.jobs.filter(pk=batch.jobs.order_by("pk")[0].pk).fail()
    admit()
    printed = StringIO()
    call_command("jobstatus", stdout=printed)
    text = printed.getvalue()
    assert f"predecessor: 2 waiting, the first waits for job {first.pk}" in text
    assert f"batch {batch.pk} Three: 1 of 3 jobs ended, 1 failed" in text
    assert text.count("jobs ended") == 1
