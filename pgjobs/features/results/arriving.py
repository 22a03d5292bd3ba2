"""Gives a job that begins what jobs before it have returned; `Execution` calls it."""

from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError

from ...base.mask_names import RESULT
from ...base.plain_json import dump_checked, load
from ...conf import settings
from ...exceptions import InvalidArguments
from ...queue.recording import Unsuccessful
from ...queue.statements import execute_on
from ...reports.json_text import is_secret
from ...reports.secrets import Hiding
from ...sql import statement
from ...tasks.sensitive import sensitive_by_task
from ...worker.slots.outcomes import unsuccessful
from .later import hint_of
from .placeholders import Outcome
from .sources import MOST_MEMBERS, cure_of

if TYPE_CHECKING:
    from ...worker.slots.execution import Execution

UNFINISHED = ("READY", "SCHEDULED", "WAITING", "RUNNING")
SOON = 1.0  # seconds until it is asked again for a result that is not there yet


class Misfit(ValueError):
    """What the job gets is nothing that its task takes."""


class NotYet(Exception):
    """A job before it runs again, and no admission has seen that."""


def fill_in(execution: "Execution") -> Unsuccessful | None:
    """Store the values among the job's arguments; return an outcome if none fit."""
    job, task = execution.job, execution.task
    assert job.results is not None and task is not None
    found = load(job.results)
    hide_values_of(execution, found)
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    try:
        for name, each in found.items():
            try:
                hint = hint_of(task.signature, name)
                refuse_unmasked(name, each, execution)  # before an error quotes it
                values[name] = fitting(hint, each)
            except KeyError:
                faults[name] = "is no parameter of this task"
            except ValueError as error:
                faults[name] = f"{error} ({origin_of(each)})"
    except NotYet as error:
        later = unsuccessful(job, "SNOOZE", str(error), delay=SOON)
        return later._replace(has_begun=False)
    if faults:
        unfit = InvalidArguments(task.name, faults)
        return unsuccessful(job, "FAIL", str(unfit), unfit, hide=execution.hide)
    try:
        return store(execution, values)
    except DatabaseError as error:
        return execution.ended_by(error)


def store(execution: "Execution", values: dict[str, Any]) -> Unsuccessful | None:
    job = execution.job
    parameters = {
        "values": dump_checked(values),
        "job_id": job.id,
        "lease_token": job.lease_token,
    }
    ((stored,),) = execute_on(settings.DATABASE)(statement("store_results"), parameters)
    if not stored:
        return unsuccessful(job, "RELEASE", "Another worker has the job.")
    kwargs = dump_checked(load(job.kwargs) | values)
    execution.job = job._replace(kwargs=kwargs, results=None)
    return None


def refuse_unmasked(name: str, found: dict[str, Any], execution: "Execution") -> None:
    """Raise Misfit if a result that is masked came where it is not."""
    if is_secret(name, execution.options.sensitive):
        return
    tasks = {end["task"] for end in found.get("ends", ()) if end["task"]}
    for task, words in sensitive_by_task(tasks).items():
        if RESULT in words:
            raise Misfit(f"{task} calls its result sensitive. {cure_of(name)}")


def hide_values_of(execution: "Execution", found: dict[str, Any]) -> None:
    """Mask in texts what arguments get whose names are sensitive."""
    gotten = {
        name: [end["value"] for end in each.get("ends", ())]
        for name, each in found.items()
    }
    hide = Hiding(
        execution.options.sensitive,
        *execution.hide.arguments,
        partial(dump_checked, gotten),
    )
    execution.hide = execution.running.hide = hide


def fitting(hint: Any, found: dict[str, Any]) -> Any:
    """Return an argument as JSON data; raise Misfit or ValueError, or NotYet."""
    if "ends" not in found:
        raise Misfit(too_many(found))
    value = value_of(found)
    return hint.store(hint.load(value))


def value_of(found: dict[str, Any]) -> Any:
    """Return what a placeholder stands for, as JSON data."""
    ends = found["ends"]
    if found["of"] == "outcomes":
        told = [{key: end[key] for key in KEPT} for end in ends]
        return told[0] if found.get("is_one") else told
    for end in ends:
        if end["status"] in UNFINISHED:
            raise NotYet(f"Job {end['id']}, whose result it gets, has not ended.")
        if end["status"] == "GONE":
            raise Misfit(f"is gone with job {end['id']}")
    if found["of"] == "results":
        if len(ends) < found.get("expected", 0):
            raise Misfit(f"{found['expected'] - len(ends)} are gone with their jobs")
        return [end["value"] for end in ends]
    (end,) = ends
    if end["lacks"]:
        part = "".join(f"[{key!r}]" for key in found["path"])
        raise Misfit(f"the result has no {part}")
    return end["value"]


KEPT = tuple(Outcome.__dataclass_fields__)


def too_many(found: dict[str, Any]) -> str:
    if found["number"] > MOST_MEMBERS:
        return f"would be the results of more than {MOST_MEMBERS} jobs"
    size, most = found["bytes_found"], found["bytes"]
    return (
        f"would be {size} bytes of JSON, more than the {most} of ten times "
        "PGJOBS['MAX_RESULT_BYTES']"
    )


def origin_of(found: dict[str, Any]) -> str:
    """Return whose result it is, for people."""
    ends = found.get("ends")
    if not ends or len(ends) > 1:
        tasks = dict.fromkeys(end["task"] or "a deleted job" for end in ends or ())
        listed = ", ".join([*tasks][:5])
        return f"the results of {listed or 'its group'}"
    (end,) = ends
    return f"the result of job {end['id']}, {end['task'] or 'which was deleted'}"
