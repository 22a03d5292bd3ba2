"""A project's foreign keys to jobs, batches and events: nothing fails for them."""

from io import StringIO

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models
from django.test.utils import isolate_apps
from django.utils import timezone

from pgjobs import enqueue, group, publish
from pgjobs.checks.project import check_references
from pgjobs.features.events import queue as events
from pgjobs.models import Batch, Event, Job
from pgjobs.queue import upkeep
from tests.actors import execute, hours, job_that_is
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.tasks import noop

pytestmark = shared_queue

AGES = dict.fromkeys(("SUCCESSFUL", "FAILED", "CANCELLED"), 60.0)


@pytest.fixture(params=[models.CASCADE, models.SET_NULL, models.PROTECT])
def document(request):
    """The model of a project's table that refers to ours, and is there for a test."""
    with isolate_apps("tests"):

        class Document(models.Model):
            job = models.ForeignKey(Job, request.param, null=True)
            batch = models.ForeignKey(Batch, request.param, null=True)
            event = models.ForeignKey(Event, request.param, null=True)
            copied_job = models.ForeignKey(
                Job, request.param, null=True, db_constraint=False, related_name="+"
            )

            class Meta:
                app_label = "tests"
                db_table = "tests_My document"

            def __str__(self) -> str:
                return f"document {self.pk}"

    with connection.schema_editor() as editor:
        editor.create_model(Document)
    yield Document
    execute('DROP TABLE "tests_My document" CASCADE')


def old_job() -> Job:
    return job_that_is("SUCCESSFUL", finished_at=timezone.now() - hours(99_999))


def test_prune_skips_what_a_table_of_the_project_refers_to(document):
    kept, copied = old_job(), old_job()
    old_job()
    document.objects.create(job=kept)
    document.objects.create(copied_job=copied)
    assert upkeep.prune(execute, AGES) == 2
    assert Job.objects.get() == kept
    document.objects.all().delete()
    assert upkeep.prune(execute, AGES) == 1


def test_worker_prunes_and_runs_on_beside_what_is_referred_to(document, caplog):
    kept = old_job()
    document.objects.create(job=kept)
    others = [old_job() for _ in range(3)]
    with running_worker(poll=600) as loop:
        loop.upkeep["prune"].due = 0.0
        loop.bell.ring()
        gone = Job.objects.filter(pk__in=[each.pk for each in others])
        wait_for(lambda: not gone.exists(), "the others are pruned")
        wait_for_status(enqueue(noop), "SUCCESSFUL")
    assert Job.objects.filter(pk=kept.pk).exists()
    assert "failed" not in caplog.text


def test_events_and_batches_that_are_referred_to_are_kept(document):
    batches = [enqueue(group([noop.bind()])) for _ in range(2)]
    published = [publish(f"test.{number}") for number in range(2)]
    document.objects.create(batch=batches[0], event=published[0])
    Job.objects.all().delete()
    long_ago = timezone.now() - hours(99_999)
    Batch.objects.update(enqueued_at=long_ago)
    Event.objects.update(published_at=long_ago)
    assert upkeep.prune_batches(execute) == (1, None)
    assert events.prune(execute, 60.0).number == 1
    assert Batch.objects.get() == batches[0]
    assert Event.objects.get() == published[0]


def test_discard_skips_and_counts_what_is_referred_to(document):
    jobs = [job_that_is("SUCCESSFUL") for _ in range(3)]
    document.objects.create(job=jobs[1])
    assert Job.objects.all().discard() == (2, 1)
    assert Job.objects.get() == jobs[1]


def test_prunejobs_says_what_it_skipped_and_why(document):
    document.objects.create(job=old_job())
    old_job()
    out = StringIO()
    call_command("prunejobs", older=60.0, stdout=out)
    assert "Deleted 1 job.\n" in out.getvalue()
    assert 'Skipped 1 job: public."tests_My document" refers to it.\n' in (
        out.getvalue()
    )


def test_column_that_the_database_cascades_keeps_nothing_back(document):
    kept = old_job()
    document.objects.create(job=kept)
    execute(
        f'ALTER TABLE "tests_My document" DROP CONSTRAINT {constraint_of("job_id")},'
        " ADD FOREIGN KEY (job_id) REFERENCES pgjobs_job ON DELETE CASCADE"
    )
    assert upkeep.prune(execute, AGES) == 1
    assert not document.objects.exists()


def constraint_of(column: str) -> str:
    ((name,),) = execute(
        "SELECT quote_ident(conname) FROM pg_constraint JOIN pg_attribute"
        " ON attrelid = conrelid AND attnum = conkey[1]"
        " WHERE contype = 'f' AND attname = %(column)s"
        " AND conrelid = '\"tests_My document\"'::regclass",
        {"column": column},
    )
    return name


def test_check_names_the_foreign_keys_that_keep_rows(document, monkeypatch):
    assert check_references() == []
    monkeypatch.setattr(apps, "get_models", lambda **how: [Job, document])
    found = check_references()
    assert [each.obj.name for each in found] == ["job", "batch", "event"]
    assert {each.id for each in found} == {"pgjobs.W045"}
    assert found[0].msg == (
        "tests.Document.job refers to pgjobs.Job: a row to which it refers is not "
        "pruned, and the admin does not delete it."
    )
