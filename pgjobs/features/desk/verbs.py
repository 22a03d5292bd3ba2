"""`manage.py jobs errors`: the failed jobs, grouped by their error."""

import json
from argparse import ArgumentParser
from typing import Any

from ...base.moments import instant
from ...base.queue_database import database_time
from ...management.parameters import whole_number
from ...management.tables import print_table
from ...reports.durations import seconds_in_words
from ...reports.texts import excerpt, one_line
from ..operating.choosing import NAMES, Verb, add_common, near, refuse
from .errors import LOOKED_AT, MOST_COUNTED, MOST_GROUPS, Failures, failures

LONGEST_CELL = 60
TITLES = ("failed", "latest", "task", "error", "reason of the latest")


def add_errors(parser: ArgumentParser) -> None:
    parser.add_argument("--task", metavar="TASK", help="only those of this task")
    parser.add_argument(
        "--limit",
        type=whole_number,
        default=20,
        metavar="N",
        help="list at most so many, the most frequent first (default: 20)",
    )
    add_common(parser)


def list_errors(command: Any, alias: str, options: dict[str, Any]) -> None:
    """Print the groups of the latest failed jobs, the largest first."""
    limit, task = options["limit"], options["task"]
    found = failures(alias, max(limit + 1, MOST_GROUPS))
    groups = [each for each in found if task in (None, each.task)]
    if options["json"]:
        rows = [as_json(each) for each in groups[:limit]]
        command.stdout.write(json.dumps(rows, indent=2))
    if task is not None and not groups:
        refuse_task(command, alias, task)
    if options["json"]:
        return
    now = database_time(alias)
    rows_shown = [row(each, now) for each in groups[:limit]]
    print_table(command.stdout, TITLES, rows_shown, "No jobs have failed.", TITLES[2:])
    if len(groups) > limit:
        command.stderr.write(f"There are more than {limit}: --limit shows more.")
    if sum(each.number for each in found) >= LOOKED_AT:
        command.stderr.write(f"Only the latest {LOOKED_AT:,} failed jobs are grouped.")


def refuse_task(command: Any, alias: str, task: str) -> None:
    """Raise CommandError if there is no such task."""
    _noun, names_of = NAMES["task"]
    known = names_of(alias)
    if task not in known:
        refuse(command, [f"There is no task {one_line(task)!r}. {near(task, known)}"])


def row(group: Failures, now) -> tuple:
    muted = "muted: " if group.is_muted else ""
    age = (now - instant(group.last_at)).total_seconds() if group.last_at else None
    return (
        number_of(group),
        seconds_in_words(age),
        one_line(group.task),
        one_line(muted + (group.exception_class or "-")),
        excerpt(group.reason, LONGEST_CELL),
    )


def number_of(group: Failures) -> str:
    """Return how many jobs of the group are FAILED now."""
    number = group.number if group.failed_now is None else group.failed_now
    is_capped = group.failed_now is not None and number > MOST_COUNTED
    return f"{max(group.number, MOST_COUNTED):,}+" if is_capped else f"{number:,}"


def as_json(group: Failures) -> dict[str, Any]:
    return {
        "task": group.task,
        "error": group.exception_class or None,
        "group": group.kind and group.kind.pk,
        "failed": group.failed_now,
        "among_latest": group.number,
        "by_hour": group.by_hour,
        "last_at": group.last_at and instant(group.last_at).isoformat(),
        "last_job_id": group.last_id,
        "reason": group.reason,
        "muted": group.is_muted,
    }


VERBS = (
    Verb("errors", "list the failed jobs by their error", add_errors, list_errors),
)
