"""Gives a job that begins what jobs before it have returned; `Execution` calls it."""

from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError

from ...base.mask_names import MASKED
from ...base.plain_json import dump_checked, load
from ...conf import settings
from ...exceptions import InvalidArguments
from ...queue.recording import Unsuccessful
from ...queue.statements import execute_on
from ...reports.secrets import Hiding
from ...sql import statement
from ...worker.slots.outcomes import unsuccessful
from ..encryption.arriving import keep_values
from .later import hint_of
from .masks import masked_names
from .placeholders import Outcome
from .sources import MOST_MEMBERS

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
    assert task is not None
    if job.results is None:  # another feature asked
        return None
    found = load(job.results)
    masked = masked_names(found, execution.options.sensitive)
    hide_values_of(execution, found, masked)  # before an error quotes one
    wanted = {name: each for name, each in found.items() if "of" in each}
    if not wanted:
        execution.job = job._replace(results=None)
        return None
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    try:
        for name, each in wanted.items():
            try:
                hint = hint_of(task.signature, name)
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
        return store(execution, values, masked)
    except DatabaseError as error:
        return execution.ended_by(error)


def store(
    execution: "Execution", values: dict[str, Any], masked: list[str]
) -> Unsuccessful | None:
    job = execution.job
    kept, marks = keep_values(execution.running, values, execution.options)
    masked = list(dict.fromkeys((*masked, *marks.get(MASKED, ()))))
    parameters = {
        "values": dump_checked(kept),
        "marks": dump_checked({**marks, **({MASKED: masked} if masked else {})}),
        "job_id": job.id,
        "lease_token": job.lease_token,
    }
    ((stored,),) = execute_on(settings.DATABASE)(statement("store_results"), parameters)
    if not stored:
        return unsuccessful(job, "RELEASE", "Another worker has the job.")
    kwargs = dump_checked(load(job.kwargs) | values)
    execution.job = job._replace(kwargs=kwargs, results=None)
    return None


def hide_values_of(
    execution: "Execution", found: dict[str, Any], masked: list[str]
) -> None:
    """Mask in texts what arguments get that are `masked`, or of a sensitive name."""
    gotten = {
        name: [end["value"] for end in each.get("ends", ())]
        for name, each in found.items()
    }
    hide = Hiding(
        (*execution.options.sensitive, *masked),
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
        # It was retried, and failed, while the first worker of this job died.
        if end["status"] != "SUCCESSFUL" and found["needs"] == "success":
            raise Misfit(f"is none: job {end['id']} is {end['status']}")
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
