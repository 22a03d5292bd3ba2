"""The backend: enqueues tasks of `django.tasks` as jobs, and reads their results."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage

from .. import signals
from ..exceptions import InvalidTask as InvalidOption
from ..tasks import tables
from ..tasks.options import check_queue_name
from ..tasks.registry import registry
from ..tasks.task_names import check_task_name
from .adopted import SEPARATOR, AdoptedTask, name_of
from .adoptions import Adoptions
from .checks import problems
from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    log_task_enqueued,
    task_backends,
    task_enqueued,
)
from .django_task import PgJobsTask
from .endings import Endings
from .finding import import_declaring_modules
from .hearing import is_heard
from .plain_signature import normalized
from .result_ids import read_result_id, result_id
from .results import JobResult, like, stand_in, stored_result

if TYPE_CHECKING:
    from ..models import Job
    from ..models.job_set import JobManager


class PgJobsBackend(BaseTaskBackend):
    """Runs tasks of `django.tasks` as jobs of pgjobs.

    OPTIONS: the options of pgjobs for all tasks, such as `max_attempts`; `tasks`, a
    dict of such options by the path of a task; `database`, the alias of the queue.
    """

    task_class = PgJobsTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]):
        super().__init__(alias, params)
        # Django makes a backend for each thread. What it learns of tasks is shared.
        self.adoptions = Adoptions.of(type(self), alias, params)

    @property
    def jobs(self) -> "JobManager":
        """The jobs of the database that the tasks are enqueued in."""
        jobs: JobManager = tables.Job.objects
        database = self.adoptions.database
        return jobs.db_manager(database) if database else jobs

    # Enqueueing

    def validate_task(self, task: Task) -> None:
        """Raise Django's InvalidTask unless jobs of the task can be stored."""
        if self.adoptions.is_validated(task):
            return
        super().validate_task(task)
        self.validate_storable(task)
        self.adoptions.note_validated(task)

    def validate_storable(self, task: Task) -> None:
        try:
            check_queue_name(task.queue_name)
            check_task_name("the path", name_of(self.alias, task.module_path))
            if options := getattr(task, "options", None):
                self.adoptions.check_options(task.func, options)
        except InvalidOption as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task, args: tuple, kwargs: dict) -> TaskResult:
        """Insert a job in the caller's transaction and return its result.

        If another job holds its unique key, that one's result is returned. Raises
        InvalidTask, and for arguments that are not JSON TypeError or ValueError.
        """
        self.validate_task(task)
        adopted = self.adopt(task)
        positional, named = normalized([*args]), normalized({**kwargs})
        stored = adopted.signature.dump(positional, named)
        try:
            new_job = adopted.new_job(task, stored, args, kwargs)
        except InvalidOption as error:
            raise InvalidTask(str(error)) from error
        (job,) = self.jobs.insert([new_job])
        if not job.is_new:
            return self.result_of(job)
        if job.finished_at is None:
            result = self.new_result(task, job, positional, named)
        else:  # it has run inline
            result = self.result_of(job)
        if is_heard(task_enqueued, log_task_enqueued, logging.DEBUG):
            signals.send(task_enqueued, type(self), task_result=result)
        return result

    def adopt(self, task: Task) -> AdoptedTask:
        """Return the task as workers find it. Raises Django's InvalidTask."""
        try:
            return self.adoptions.by_function[task.func]
        except KeyError:
            return self.adoptions.adopt(task)

    def new_result(self, task: Task, job: "Job", args: list, kwargs: dict):
        return JobResult.of(
            {
                "task": task,
                "id": result_id(self.alias, job.pk, job._state.db),
                "backend": self.alias,
                "status": TaskResultStatus.READY,
                "enqueued_at": job.enqueued_at,
                "started_at": None,
                "finished_at": None,
                "last_attempted_at": None,
                "args": args,
                "kwargs": kwargs,
                "errors": [],
                "worker_ids": [],
                "_return_value": None,
            }
        )

    # Reading

    def get_result(self, result_id: str) -> TaskResult:
        """Return the result of a job. Raises TaskResultDoesNotExist."""
        job = self.find_job(result_id)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(job)

    def find_job(self, id: Any) -> "Job | None":
        """Return the job with this id, if it is one of a task of Django's."""
        found = read_result_id(self.alias, id)
        if found is None:
            return None
        pk, database = found
        job = tables.Job.objects.using(database).filter(pk=pk).first()
        return job if job is not None and self.is_readable(job.task) else None

    def is_readable(self, name: str) -> bool:
        """Whether a job of this name belongs here: also if its alias is gone."""
        alias, separator, _ = name.partition(SEPARATOR)
        return bool(separator) and (
            alias == self.alias or alias not in task_backends.settings
        )

    def result_of(self, job: "Job") -> TaskResult:
        alias, _, path = job.task.partition(SEPARATOR)
        adopted = self.adoptions.find(path)
        task = adopted.declared if adopted else stand_in(self.task_class, path)
        task = like(
            task,
            self.alias,
            queue_name=job.queue_name,
            priority=job.priority,
            run_after=job.run_after,
        )
        return stored_result(job, task, alias)

    # Checks

    def check(self, **kwargs: Any) -> Iterator[CheckMessage]:
        yield from problems(self)


class DjangoTasks:
    """The tasks that the backends of the project have adopted, or can adopt."""

    def find_task(self, name: str) -> AdoptedTask | None:
        """Return the task that jobs of this name run, if a backend has it."""
        alias, separator, path = name.partition(SEPARATOR)
        adoptions = find_adoptions(alias) if separator else None
        return adoptions.find(path) if adoptions else None

    def load_tasks(self) -> None:
        """Import the modules that declare tasks, and those that the settings name."""
        found = [each for each in map(find_adoptions, task_backends.settings) if each]
        for adoptions in found:
            for path in adoptions.by_task:
                adoptions.find_named(path)
        if found:
            import_declaring_modules()

    def known_tasks(self) -> Iterator[AdoptedTask]:
        """Yield the tasks that the backends have adopted, or can find."""
        for alias in task_backends.settings:
            if adoptions := find_adoptions(alias):
                yield from adoptions.known_tasks()

    def queue_names(self) -> set[str]:
        """Return the queues that the settings of the backends name."""
        found = map(find_adoptions, task_backends.settings)
        named = [each.params.get("QUEUES", ["default"]) for each in found if each]
        return set().union(*named)


def find_adoptions(alias: str) -> Adoptions | None:
    """Return what the backend of this alias has adopted, if it is one of these."""
    settings: Mapping[str, Any] = task_backends.settings
    if alias not in settings:
        return None
    known = Adoptions.known.get(alias)
    if known is not None and known.params is settings[alias]:
        return known  # to ask Django for the backend takes longer
    backend = task_backends[alias]
    return backend.adoptions if isinstance(backend, PgJobsBackend) else None


registry.sources.append(DjangoTasks())
signals.end_listeners.append(Endings())
