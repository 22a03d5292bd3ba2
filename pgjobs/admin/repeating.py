"""A new job like an old one: the button *Run again*."""

from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from ..models import Job
from ..queue.acts import Changed
from ..tasks.arguments import Stored
from ..tasks.schedules import scheduled


class Repeated(Changed):
    """The outcome of the act, with the id of the new job."""

    new_id: int


def run_again(jobs) -> Repeated:
    """Enqueue a job like the one in the set: same arguments, queue and priority.

    Its other options are those that the task has now. Raises AlreadyEnqueued if another
    job holds its unique key.
    """
    # As text: SQL may have stored JSON that Python cannot read.
    texts = (Cast(column, TextField()) for column in ("args", "kwargs"))
    columns = jobs.values_list("task", "queue_name", "priority", *texts)
    with transaction.atomic(using=Job.objects.db_to_write):
        task, queue_name, priority, args, kwargs = columns.get()
        new_job = scheduled(task, Stored(args, kwargs))._replace(
            queue_name=queue_name, priority=priority, on_conflict="raise"
        )
        (job,) = Job.objects.db_manager(Job.objects.db_to_write).insert([new_job])
    repeated = Repeated(1, 0)
    repeated.new_id = job.pk
    return repeated
