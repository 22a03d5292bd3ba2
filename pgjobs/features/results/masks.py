"""Which arguments are masked because what they have got is masked where it comes from.

Their names are stored as `Job.keys["masked"]`: whatever shows the job masks them.
"""

from collections.abc import Iterator
from typing import Any

from ...base.mask_names import RESULT
from ...reports.json_text import is_secret, is_sensitive
from ...reports.secrets import keys_in
from ...reports.task_words import Words
from ...tasks.sensitive import sensitive_by_task


def masked_names(found: dict[str, Any], own: Words) -> list[str]:
    """Return the names of the arguments to mask. `own`: the words of the job's task."""
    tasks = {end["task"] for each in found.values() for end in ends_of(each)}
    words = sensitive_by_task(tasks)
    return [
        name
        for name, each in found.items()
        if MARK in each
        or any(is_masked(each, end, words, own) for end in ends_of(each))
    ]


MARK = "masked"  # of an argument that a claim before has masked; see results_of.sql


def ends_of(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (end for end in entry.get("ends", ()) if end["task"])


def is_masked(
    entry: dict[str, Any], end: dict[str, Any], by_task: dict[str, Words], own: Words
) -> bool:
    """Whether the page of a job before masks its result, or the part of it."""
    words = by_task[end["task"]]
    if RESULT in words:
        return True
    if any(is_secret(key, words) for key in entry.get("path", ()) if is_name(key)):
        return True
    return bool(words) and any(
        is_sensitive(key, words) and not is_secret(key, own)
        for key in keys_in(end["value"])
    )


def is_name(key: Any) -> bool:
    return isinstance(key, str)
