"""Jobs whose arguments a row has: that of a schedule, or of a job that runs again."""

from datetime import timedelta
from typing import Any

from ..base.plain_json import dump_checked
from ..exceptions import InvalidArguments, InvalidTask, UnknownTask
from ..queue.new_job import NewJob
from .arguments import Stored
from .options import Options
from .registry import registry
from .task import Task


def job_of(
    task_name: str, stored: Stored, run_after: timedelta | None = None
) -> NewJob:
    """Return a job with these arguments.

    In the middle of a deploy this process may not know the task. It makes the job all
    the same. The job waits, and fails visibly if no worker ever knows its task.
    """
    try:
        task = registry.get(task_name).using(run_after=run_after)
    except UnknownTask:
        return Options(run_after=run_after).new_job(task_name, stored)
    columns = key_columns(task, stored)
    columns["dependencies"] = dependencies_of(task, stored)
    return task.options.new_job(task_name, stored).with_columns(columns)


def key_columns(task: Task, stored: Stored) -> dict[str, Any]:
    """Return the columns of the job's keys.

    If the arguments do not fit any more there are none, and the job fails when it runs.
    """
    if not task.options.has_keys:
        return {}
    try:
        args, kwargs = task.signature.load(stored)
        return task.key_columns(stored, tuple(args), kwargs)
    except InvalidArguments:
        return {}


def dependencies_of(task: Task, stored: Stored) -> str | None:
    """Return the dependencies of the job, as JSON text.

    If they cannot be made there are none, and the worker that runs the job says why.
    """
    try:
        if not task.options.has_dependencies(task):
            return None
        return dump_checked(task.options.dependencies_of(task, stored))
    except (InvalidArguments, InvalidTask, UnknownTask):
        return None
