"""On the page of a job: what it waits for, and the jobs that it goes on for or as."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from ...admin.details import LONGEST_LINE, Lineage
from ...admin.links import Link, jobs_of, link_to_job
from ...admin.markup import exactly
from ...admin.searching import may_see_arguments
from ...models.job import Job
from ...models.job_choices import Status
from ...reports.texts import excerpt
from ..steps.tables import Step
from . import queue
from .answering import ANSWER_JOB
from .places import sleeps
from .questions import address_on_page, overview_tables
from .tables import Kind, Wait

MOST_WAYS = 50
MOST_JOBS = 20  # of a wait for jobs


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the context for the template: links to the first, next and newest job."""
    first, next = (getattr(job, key) for key in JOB_KEYS)
    notes: dict[int, str] = {}
    if first is not None:
        notes[int(first)] = _("Goes on for job %(id)s") % {"id": first}
    if next is not None:
        newest = queue.newest(Job.objects.db, job.pk)
        for id in {int(next), newest}:
            notes[id] = _("Goes on as job %(id)s") % {"id": id}
    jobs = jobs_of(notes) if notes else {}
    links = [link_to_job(id, jobs, notes[id], admin_site) for id in sorted(notes)]
    return {"succession": links}


def waits_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the context for the template: `waits.html`."""
    if job.status == Status.SCHEDULED and job.attempts:
        return {"sleeps": sleeps_of(job)}
    if job.waiting_for not in Kind.values:
        return {}
    open_waits = Wait.objects.filter(job_id=job.pk, life=job.life, ended_at=None)
    waits = list(open_waits.order_by("pk")[: MOST_WAYS + 1])
    shown = waits[:MOST_WAYS]
    show(shown, request.user, may_see_arguments(request), admin_site)
    return {
        "waits": shown,
        "hidden_waits": len(waits) > MOST_WAYS,
        "most_waits": MOST_WAYS,
    }


def sleeps_of(job: Job) -> list[Step]:
    """Return the step that is the sleep of a job, if it sleeps."""
    steps = list(sleeps(Step.objects.db).filter(job=job.pk).defer("return_value")[:1])
    for step in steps:
        step.shown_name = excerpt(step.name, LONGEST_LINE)
        step.shown_end = exactly(step.finished_at)
    return steps


def show(waits: list[Wait], user: Any, may_see_values: bool, admin_site) -> None:
    """Give each wait what the template shows of it. A question may have values."""
    awaited = {wait.pk: list(awaited_ids(wait)) for wait in waits}
    jobs = jobs_of({id for ids in awaited.values() for id in ids})
    for wait in waits:
        wait.answer_at = address_on_page(user, wait, admin_site)
        may_see = may_see_values or wait.answer_at
        name = wait.title if may_see else wait.answer_name
        wait.shown_name = excerpt(name, LONGEST_LINE)
        wait.shown_since = exactly(wait.opened_at)
        wait.shown_deadline = exactly(wait.deadline)
        wait.needed = excerpt(wait.permission or ANSWER_JOB, LONGEST_LINE)
        wait.shown_event = excerpt(wait.event or "", LONGEST_LINE)
        wait.shown_aggregate = excerpt(wait.aggregate_id or "", LONGEST_LINE)
        wait.links = [awaited_job(id, jobs, admin_site) for id in awaited[wait.pk]]


def awaited_ids(wait: Wait) -> Iterator[int]:
    """Yield the first jobs that it waits for; SQL may have stored anything."""
    if wait.kind == Kind.JOBS and isinstance(wait.asked, list):
        yield from (id for id in wait.asked[:MOST_JOBS] if type(id) is int)


def awaited_job(id: int, jobs: dict[int, Job], admin_site) -> Link:
    return link_to_job(id, jobs, "", admin_site)


JOB_CONTEXTS = (job_context, waits_context)
JOB_KEYS = ("first_id", "continued_as")
OVERVIEW_FIRST = (overview_tables,)
