"""The jobs that failed in the same way."""

from collections.abc import Iterator
from difflib import get_close_matches

from ...models.job_set import JobQuerySet
from ...reports.job_filters import Filter, checked, known_id
from ...reports.texts import one_line
from .errors import groups_with, in_groups, latest_errors, with_error

NO_EXCEPTION = "-"  # the value of the filter by error, since none may be empty
MOST_NAMED = 5


def by_error(jobs: JobQuerySet, text: str) -> JobQuerySet:
    return with_error(jobs, "" if text == NO_EXCEPTION else checked(text))


def by_group(jobs: JobQuerySet, text: str) -> JobQuerySet:
    """Filter the jobs that failed in the same way: see ErrorGroup."""
    return in_groups(jobs, [known_id(text)])


def near_misses(alias: str, text: str) -> Iterator[str]:
    """Say that no job failed with this error, and which errors there were lately."""
    if text != NO_EXCEPTION and not groups_with(alias, text):
        yield f"No job failed with {one_line(text)!r}. {errors(alias, text)}"


def errors(alias: str, text: str) -> str:
    """Say which errors there were lately, the most frequent first."""
    numbers = latest_errors(alias)
    del numbers[""]  # which failed without an exception
    names = {each.rpartition(".")[2]: each for each in numbers}
    found = get_close_matches(text.rpartition(".")[2], names, n=1)
    meant = f"Did you mean {one_line(names[found[0]])!r}? " if found else ""
    some = numbers.most_common(MOST_NAMED)
    listed = ", ".join(f"{one_line(name)} ({number:,})" for name, number in some)
    return f"{meant}The latest failed with: {listed or 'no exception'}."


OPTION = ("--error", "CLASS", "failed jobs whose last attempt raised this class")
FILTERS = (
    Filter("error", by_error, OPTION, near_misses=near_misses),
    Filter("group", by_group),
)
