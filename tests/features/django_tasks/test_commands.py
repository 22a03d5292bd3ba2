"""The commands know of Django's tasks."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from pgjobs import get_task
from pgjobs.management.running import banner
from pgjobs.models import Job
from pgjobs.tasks.registry import registry
from pgjobs.worker import WorkerOptions
from tests.standard import default_task_backend


def test_worker_without_own_tasks_names_those_of_django(db):
    registry.tasks = {}
    text = "\n".join(banner(WorkerOptions(), "Worker", 1))
    assert "Tasks: 0, and those of django.tasks." in text


@pytest.mark.django_db(transaction=True)
def test_worker_knows_the_queues_of_the_settings(use):
    use({"QUEUES": ["letters"]})
    err = StringIO()
    call_command("runjobs", "--drain", "--queues=letters,lettres", stderr=err)
    assert "'letters' " not in err.getvalue().replace("queues: ", "")
    assert "No task is declared for queue 'lettres'" in err.getvalue()


def test_task_is_enqueued_by_the_path_of_its_function(db, capsys):
    path = "tests.standard_tasks.add"
    call_command("enqueuejob", path, "a=1")
    job = Job.objects.get()
    assert job.task == f"default:{path}"
    assert default_task_backend.get_result(str(job.pk)).kwargs == {"a": 1}
    assert get_task(path).name == f"default:{path}"
    with pytest.raises(CommandError, match=f"Did you mean 'default:{path}'"):
        call_command("enqueuejob", f"{path}d")


def test_row_by_the_bare_path_runs_no_task_of_djangos(db):
    """Only the name with its alias is that of a task."""
    assert registry.find("tests.standard_tasks.add") is None


def test_task_is_enqueued_by_its_name(db, capsys):
    call_command("enqueuejob", "default:tests.standard_tasks.add", "--args", '{"a": 1}')
    job = Job.objects.get()
    assert capsys.readouterr().out == f"{job.pk}\n"
    assert default_task_backend.get_result(str(job.pk)).kwargs == {"a": 1}
