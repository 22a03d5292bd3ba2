"""Opens what a claimed job has encrypted, before it begins; `Execution` calls it."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError

from ...base.plain_json import dump_checked, load
from ...exceptions import EncryptionError
from ...queue.recording import Unsuccessful
from ...reports.secrets import Hiding
from ...tasks.sensitive import named_arguments
from ...worker.slots.outcomes import unsuccessful
from .keyring import LATER, NoKey, keyring
from .marking import marks, store_mark
from .sealing import (
    MARK,
    RESULT,
    Seal,
    argument,
    open_arguments,
    opened,
    seal_of,
)

if TYPE_CHECKING:
    from ...worker.slots.execution import Execution

OWN = "*"  # where the claim puts the mark: see functions/results_of.sql


def fill_in(execution: "Execution") -> Unsuccessful | None:
    """Open the arguments; return an outcome if the job cannot run here."""
    job, has_row = execution.job, execution.running.has_row
    try:
        found = load(job.results) if job.results is not None else {}
        mark = found.pop(OWN, None)
        ends = open_ends(found)
        if mark is None and not (execution.options.encrypted or ends):
            return None
        keyring().first.cipher  # noqa: B018  (raises where nothing can be stored)
        if mark is None:
            mark = {"by": Seal.new().by, "names": []}
            if has_row and not store_mark(job.id, job.lease_token, mark):
                return unsuccessful(job, "RELEASE", "Another worker has the job.")
        args, kwargs = open_arguments(job.args, job.kwargs, mark)
    except NoKey as error:
        lacking = unsuccessful(job, "UNKNOWN", str(error), delay=LATER)
        return lacking._replace(has_begun=False)
    except EncryptionError as error:
        return unsuccessful(job, "FAIL", str(error), error)
    except DatabaseError as error:
        return execution.ended_by(error)
    running = execution.running
    running.seal = seal_of(mark)
    running.mark, running.flowing = mark, ends
    # Masks alone need no more: `hide` knows them.
    is_waited_for = any("of" in entry for entry in found.values())
    results = dump_checked(found) if is_waited_for else None
    execution.job = job._replace(args=args, kwargs=kwargs, results=results)
    hide(execution, found)
    return None


def claimed_mark(keys: dict[str, Any] | None) -> str | None:
    """Return what a claim would bring of the mark of a job with these keys."""
    return dump_checked({OWN: keys[MARK]}) if keys and MARK in keys else None


def open_ends(found: dict[str, Any]) -> set[str]:
    """Open the results of jobs before; return the arguments that get one of these."""
    names = set()
    for name, entry in found.items():
        for end in entry.get("ends") or ():
            if (by := end.pop("by", None)) is None:
                continue
            names.add(name)
            end["value"] = opened(Seal(by), RESULT, end["value"])
            end["value"], end["lacks"] = part_of(
                end["value"], entry.get("path") or (), end["status"]
            )
    return names


def part_of(value: Any, path: Iterable[Any], status: str) -> tuple[Any, bool]:
    """Return the part of a result that is asked for, and whether there is none."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None, status == "SUCCESSFUL"
    return value, False


def hide(execution: "Execution", masked: Iterable[str]) -> None:
    """Mask in texts what is encrypted, and what is masked otherwise."""
    job, running = execution.job, execution.running
    execution.hide = running.hide = Hiding(
        (*execution.options.sensitive, *running.mark["names"], *masked),
        job.kwargs,
        partial(named_arguments, job.task, job.args),
        job.meta,
    )


def keep_values(
    running: Any, values: dict[str, Any], options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is stored of values that a job gets of jobs before, and its marks."""
    if running.seal is None:
        return values, {}
    flowing = running.flowing
    names = [name for name in values if name in flowing or options.covers(name)]
    closed = {
        name: running.seal.close(argument(name), dump_checked(values[name]))
        for name in names
    }
    mark = {**running.mark, "names": [*running.mark["names"], *names]}
    running.mark = mark
    return {**values, **closed}, marks(mark)
