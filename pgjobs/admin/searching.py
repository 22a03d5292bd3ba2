"""What a search of jobs looks at, and what the page says of it."""

from django.db.models import Q
from django.utils.translation import gettext

from ..base.ids import read_id
from ..models import Job, TaskDefinition
from ..reports.job_filters import LARGE as LARGE_ARGUMENTS
from ..reports.job_filters import LOOKED_AT, LOOKED_AT_BY_NAME, terms_of, uses_index
from ..tasks.registry import registry


def may_see_arguments(request) -> bool:
    return request.user.has_perm("pgjobs.view_job_arguments")


def filter_note(request) -> str:
    """Return a note if the list has not looked at all jobs."""
    if not getattr(request, "pgjobs_is_cut", False):
        return ""
    text = gettext(
        "These are among the newest %(number)s of the jobs that the other filters "
        "leave. Acts on all matching jobs, and exports, look at all of them."
    )
    return text % {"number": f"{LOOKED_AT_BY_NAME:,}"}


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
