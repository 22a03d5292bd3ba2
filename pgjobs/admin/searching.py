"""What a search of jobs looks at, and what the page says of it."""

from django.db.models import Q
from django.utils.translation import gettext

from ..base.ids import read_id
from ..models.definition import TaskDefinition
from ..models.job import Job
from ..reports.job_filters import LARGE as LARGE_ARGUMENTS
from ..reports.job_filters import Term, terms_of, uses_index, with_arguments, with_terms
from ..reports.newest import LOOKED_AT
from ..reports.texts import excerpt
from ..tasks.registry import registry
from .filters import have_ended

LONGEST_SHOWN = 80


def may_see_arguments(request) -> bool:
    return request.user.has_perm("pgjobs.view_job_arguments")


def searched(request, rows, terms: list[Term], has_index: bool):
    """Return the rows that match all terms, as far as the user may see their arguments.

    `has_index`: the project has made the index of arguments.
    """
    if not may_see_arguments(request) and not all(term.is_open for term in terms):
        return rows.none()
    if has_index:
        return with_arguments(rows, terms)
    return with_terms(rows, terms, have_ended(request))


def filter_note(request) -> str:
    """Return a note if the list has not looked at all jobs."""
    cut_at = getattr(request, "pgjobs_cut_at", None)
    if cut_at is None:
        return ""
    text = gettext(
        "These are among the newest %(number)s of the jobs that the other filters "
        "leave. Acts on all matching jobs, and exports, look at all of them."
    )
    return text % {"number": f"{cut_at:,}"}


def search_note(request, term: str) -> str:
    """Return a note on what a search has looked at."""
    terms = terms_of(term)
    if not terms:
        return ""
    if not may_see_arguments(request) and not all(each.is_open for each in terms):
        return gettext("You may not see the arguments of jobs, nor search in them.")
    if uses_index(Job.objects.db, terms):
        text = gettext(
            "Searched in all jobs, but not in arguments of more than %(size)d kB."
        )
        return text % {"size": LARGE_ARGUMENTS // 1_000}
    text = gettext(
        "Searched in the newest %(number)s of the jobs that the filters leave, but not "
        "in arguments of more than %(size)d kB."
    )
    return text % {"number": f"{LOOKED_AT:,}", "size": LARGE_ARGUMENTS // 1_000}


def no_match(term: str) -> str:
    """Return how to search for a text that is no id, if the search was for one."""
    if not term or terms_of(term) or id_of(term) is not None:
        return ""
    text = gettext(
        "No task has this name. To search in reasons, write reason:%(text)s, and for "
        "an argument its name, as in order_id:87."
    )
    text_in_quotes = '"{}"'.format(excerpt(term, LONGEST_SHOWN).replace('"', ""))
    return text % {"text": text_in_quotes}


def id_of(term: str) -> int | None:
    return read_id(term.removeprefix("#"))


def has_name(term: str) -> Q:
    """Match the beginning of a task's name, and any part of a known one."""
    names = [name for name in known_tasks() if term.lower() in name.lower()]
    return Q(task__startswith=term) | Q(task__in=names)


def known_tasks() -> set[str]:
    """Return the names of the tasks that this process or the database knows."""
    stored = TaskDefinition.objects.values_list("name", flat=True)
    return {task.name for task in registry.tasks.values()} | set(stored)
