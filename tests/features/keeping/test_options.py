"""keep is checked where it is said, and stored with the job wherever it is from."""

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import DatabaseError
from django.test import override_settings

from pgjobs import chain, enqueue, enqueue_many, task
from pgjobs.conf import problems, settings
from pgjobs.exceptions import InvalidTask
from pgjobs.features.django_tasks.adapter import AdapterOptions
from pgjobs.features.keeping.chore import prune_successes
from pgjobs.models import Job
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.upkeep import ALL_DUE
from pgjobs.testing import run_jobs
from tests.actors import execute
from tests.processes import drain, shared_queue
from tests.tasks import noop

pytestmark = shared_queue


@task(name="tests.keeping.brief", keep="failed")
def brief(number: int = 0):
    return number


# What cannot be


@pytest.mark.parametrize("value", ["success", "", True, 5, ("failed",)])
def test_wrong_value_is_refused_where_it_is_said(value):
    with pytest.raises(InvalidTask, match=r"keep must be .*'all'.*'failed'"):
        noop.using(keep=value)
    with pytest.raises(InvalidTask, match=r"keep must be .*'all'.*'failed'"):
        task(keep=value)(enqueue_nothing)


def enqueue_nothing():
    pass


@override_settings(PGJOBS={"KEEP": "none"})
def test_wrong_setting_is_found_by_a_check():
    (problem,) = problems()
    assert problem.message == "PGJOBS['KEEP'] must be 'all' or 'failed', got 'none'."
    with pytest.raises(ImproperlyConfigured, match="KEEP"):
        settings.read("KEEP")


def test_tasks_of_django_keep_all():
    assert AdapterOptions().keep == "all"
    with pytest.raises(InvalidTask, match="keep must be 'all' for tasks of django"):
        AdapterOptions(keep="failed")


# What the row has


def test_task_job_and_setting_in_that_order():
    assert enqueue(brief).keep == "failed"
    assert enqueue(brief.using(keep="all")).keep == "all"
    assert enqueue(noop).keep is None
    with override_settings(PGJOBS={"KEEP": "failed"}):
        assert enqueue(noop).keep == "failed"
    stored = list(Job.objects.order_by("pk").values_list("keep", flat=True))
    assert stored == ["failed", "all", None, "failed"]


def test_jobs_that_are_enqueued_together_keep_what_each_says():
    jobs = enqueue_many(
        [noop.bind(), brief.bind(1), noop.using(keep="all").bind(), noop.bind()]
    )
    stored = Job.objects.in_bulk([job.pk for job in jobs])
    assert [job.keep for job in jobs] == [None, "failed", "all", None]
    assert [stored[job.pk].keep for job in jobs] == [None, "failed", "all", None]


def test_job_with_a_unique_key_has_it_too():
    job = enqueue(brief.using(unique_key="a"))
    assert Job.objects.get().keep == job.keep == "failed"


def test_job_of_sql_has_what_the_definition_says():
    call_command("synctasks", verbosity=0)
    execute("SELECT id FROM pgjobs_enqueue('tests.keeping.brief')")
    execute("SELECT id FROM pgjobs_enqueue('tests.keeping.brief', keep => 'all')")
    execute("SELECT id FROM pgjobs_enqueue('tests.noop')")
    execute("SELECT id FROM pgjobs_enqueue('tests.noop', keep => 'failed')")
    stored = list(Job.objects.order_by("pk").values_list("keep", flat=True))
    assert stored == ["failed", "all", None, "failed"]


def test_sql_refuses_another_value():
    call_command("synctasks", verbosity=0)
    with pytest.raises(DatabaseError, match="keep must be 'all' or 'failed'") as caught:
        execute("SELECT id FROM pgjobs_enqueue('tests.noop', keep => 'none')")
    assert isinstance(caught.value.__cause__, psycopg.errors.InvalidParameterValue)
    with pytest.raises(DatabaseError, match="keep must be all, failed or worker"):
        execute("INSERT INTO pgjobs_job (task, keep) VALUES ('tests.noop', 'none')")


def test_kit_of_tests_keeps_the_rows():
    job = enqueue(brief, 5)
    run_jobs()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", 5)


# What comes after such jobs


def test_chain_of_such_jobs_runs_to_its_end():
    enqueue(chain(*[brief.bind(number) for number in range(5)]))
    drain()
    assert Job.objects.filter(status="SUCCESSFUL").count() == 5, "each had a tie"
    assert prune_successes(execute, OLDEST, ALL_DUE).number == 5


def test_job_after_one_that_was_deleted_is_refused_before_anything_is_written():
    first = enqueue(brief)
    drain()
    with pytest.raises(InvalidTask, match=f"after: job {first.pk} is gone"):
        enqueue(noop.using(after=[first]))
    assert not Job.objects.exists()


def test_acts_of_a_deleted_job_change_nothing():
    job = enqueue(brief)
    drain()
    assert not any(
        [job.retry(), job.cancel(), job.fail(), job.succeed(), job.run_now()]
    )
    assert execute("SELECT pgjobs_job_status(%(id)s)", {"id": job.pk}) == [(None,)]
