"""The backend: enqueues tasks of `django.tasks` as jobs, and reads their results.

And its system checks, for which Django asks each backend in `TASKS`.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ... import signals
from ...exceptions import InvalidTask as InvalidOption
from ...queue.statements import execute_on
from ...queue.waiting import newest_of
from ...tasks import tables
from ...tasks.options import check_queue_name
from ...tasks.registry import registry
from ...tasks.task_names import check_task_name
from .adapter import SEPARATOR, TaskAdapter, name_of
from .adapters import Adapters, PgJobsTask
from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    is_heard,
    log_task_enqueued,
    task_backends,
    task_enqueued,
)
from .finished_signals import FinishedSignals
from .metadata import metadata_of
from .plain_signature import normalized
from .results import JobResult, like, read_result_id, result_id, stand_in, stored_result
from .task_lookup import import_declaring_modules

if TYPE_CHECKING:
    from ...models import Job
    from ...models.job_set import JobManager


def problems(backend: "PgJobsBackend") -> Iterator[CheckMessage]:
    """Yield what keeps the tasks of a backend from being run."""
    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("pgjobs"):
        message = f"{where} needs the app pgjobs."
        hint = "Add 'pgjobs' to INSTALLED_APPS."
        yield Error(message, hint=hint, id="pgjobs.E050")
        return
    try:
        backend.adapters.check_settings()
    except (InvalidOption, ImproperlyConfigured) as error:
        hint = "OPTIONS takes the options of pgjobs' @task, 'tasks' and 'database'."
        yield Error(f"{where}: {error}", hint=hint, id="pgjobs.E051")
        return
    yield from database_problems(backend, where)
    yield from unknown_paths(backend, where)


def database_problems(backend: "PgJobsBackend", where: str) -> Iterator[CheckMessage]:
    alias = backend.adapters.database
    if alias is None:
        return  # pgjobs checks PGJOBS["DATABASE"] itself
    if alias not in connections:
        message = (
            f"{where} names the database {alias!r}, which DATABASES does not have."
        )
        hint = f"DATABASES has {', '.join(sorted(connections))}."
        yield Error(message, hint=hint, id="pgjobs.E052")
    elif connections[alias].vendor != "postgresql":
        message = f"{where} names the database {alias!r}, which is not PostgreSQL."
        yield Error(message, id="pgjobs.E053")


def unknown_paths(backend: "PgJobsBackend", where: str) -> Iterator[CheckMessage]:
    for path in sorted(backend.adapters.by_task):
        if backend.adapters.find_named(path) is None:
            yield Warning(
                f"{where}: OPTIONS['tasks'] names {path!r}, where no task is.",
                hint="Write the path as the task's module_path has it.",
                id="pgjobs.W054",
            )


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
    supports_metadata = True  # as it is proposed for Django

    def __init__(self, alias: str, params: dict[str, Any]):
        super().__init__(alias, params)
        # Django makes a backend for each thread. What it learns of tasks is shared.
        self.adapters = Adapters.of(type(self), alias, params)

    @property
    def jobs(self) -> "JobManager":
        """The jobs of the database that the tasks are enqueued in."""
        jobs: JobManager = tables.Job.objects
        database = self.adapters.database
        return jobs.db_manager(database) if database else jobs

    # Enqueueing

    def validate_task(self, task: Task) -> None:
        """Raise Django's InvalidTask unless jobs of the task can be stored."""
        if self.adapters.is_validated(task):
            return
        super().validate_task(task)
        self.validate_storable(task)
        self.adapters.remember_validated(task)

    def validate_storable(self, task: Task) -> None:
        try:
            check_queue_name(task.queue_name)
            check_task_name("the path", name_of(self.alias, task.module_path))
            if options := getattr(task, "options", None):
                self.adapters.check_options(task.func, options)
        except InvalidOption as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task, args: tuple, kwargs: dict) -> TaskResult:
        """Insert a job in the caller's transaction and return its result.

        If another job holds its unique key, that one's result is returned. Raises
        InvalidTask, and for arguments that are not JSON TypeError or ValueError.
        """
        self.validate_task(task)
        adapter = self.adapt(task)
        positional, named = normalized([*args]), normalized({**kwargs})
        stored = adapter.signature.dump(positional, named)
        try:
            new_job = adapter.new_job(task, stored, args, kwargs)
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

    def adapt(self, task: Task) -> TaskAdapter:
        """Return the task as workers find it. Raises Django's InvalidTask."""
        try:
            return self.adapters.by_function[task.func]
        except KeyError:
            return self.adapters.adapt(task)

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
                "metadata": metadata_of(job.meta),
            }
        )

    # Reading

    def get_result(self, result_id: str) -> TaskResult:
        """Return the result of a job. Raises TaskResultDoesNotExist.

        A job that goes on as another one (`continue_as`) has the result of the newest.
        """
        job = self.find_job(result_id)
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(job, result_id)

    def find_job(self, id: Any) -> "Job | None":
        """Return the job with this id, if it is one of a task of Django's."""
        found = read_result_id(self.alias, id)
        if found is None:
            return None
        pk, database = found
        jobs = tables.Job.objects.using(database)
        job = jobs.filter(pk=pk).first()
        # The row of a first job may be gone: those that follow have its id.
        if job is None or "continued_as" in (job.keys or ()):
            newest = newest_of(execute_on(database), pk)
            job = job if newest == pk else jobs.filter(pk=newest).first()
        return job if job is not None and self.is_readable(job.task) else None

    def is_readable(self, name: str) -> bool:
        """Whether a job of this name belongs here: also if its alias is gone."""
        alias, separator, _ = name.partition(SEPARATOR)
        return bool(separator) and (
            alias == self.alias or alias not in task_backends.settings
        )

    def result_of(self, job: "Job", id: str | None = None) -> TaskResult:
        """Return the result of a job: with its id, or by that of an earlier one."""
        alias, _, path = job.task.partition(SEPARATOR)
        adapter = self.adapters.find(path)
        task = adapter.declared if adapter else stand_in(self.task_class, path)
        task = like(
            task,
            self.alias,
            queue_name=job.queue_name,
            priority=job.priority,
            run_after=job.run_after,
        )
        return stored_result(job, task, alias, id)

    # Checks

    def check(self, **kwargs: Any) -> Iterator[CheckMessage]:
        yield from problems(self)


class DjangoTasks:
    """The tasks that the backends of the project have adapted, or can adapt."""

    def find_task(self, name: str) -> TaskAdapter | None:
        """Return the task that jobs of this name run, if a backend has it."""
        alias, separator, path = name.partition(SEPARATOR)
        adapters = find_adapters(alias) if separator else None
        return adapters.find(path) if adapters else None

    def find_by_path(self, path: str) -> TaskAdapter | None:
        """Return the task with this path, of the first backend that has it."""
        found = [each for each in map(find_adapters, task_backends.settings) if each]
        return next(filter(None, (each.find(path) for each in found)), None)

    def load_tasks(self) -> None:
        """Import the modules that declare tasks, and those that the settings name."""
        found = [each for each in map(find_adapters, task_backends.settings) if each]
        for adapters in found:
            for path in adapters.by_task:
                adapters.find_named(path)
        if found:
            import_declaring_modules()

    def known_tasks(self) -> Iterator[TaskAdapter]:
        """Yield the tasks that the backends have adapted, or can find."""
        for alias in task_backends.settings:
            if adapters := find_adapters(alias):
                known = adapters.known_tasks()
                yield from (task for task in known if task.declared.backend == alias)

    def queue_names(self) -> set[str]:
        """Return the queues that the settings of the backends name."""
        found = map(find_adapters, task_backends.settings)
        named = [each.params.get("QUEUES", ["default"]) for each in found if each]
        return set().union(*named)


def find_adapters(alias: str) -> Adapters | None:
    """Return what the backend of this alias has adapted, if it is one of these."""
    settings: Mapping[str, Any] = task_backends.settings
    if alias not in settings:
        return None
    known = Adapters.known.get(alias)
    if known is not None and known.params is settings[alias]:
        return known  # to ask Django for the backend takes longer
    backend = task_backends[alias]
    return backend.adapters if isinstance(backend, PgJobsBackend) else None


registry.sources.append(DjangoTasks())
signals.end_listeners.append(FinishedSignals())
