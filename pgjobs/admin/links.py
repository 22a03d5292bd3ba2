"""The jobs before and after a job, as its page shows them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Batch, Job, Predecessor, Status
from ..reports.remarks import Remark
from ..reports.texts import excerpt

MOST_LINKS = 50
LONGEST_NAME = 80
NEEDS = {
    Predecessor.Needs.SUCCESS: _("needs its success"),
    Predecessor.Needs.END: _("needs its end"),
    Predecessor.Needs.FAILURE: _("needs its failure"),
    Predecessor.Needs.DEPENDENCY: _("needs its success, or the job fails"),
}


class Link(NamedTuple):
    """A job or batch that comes before or after another one."""

    url: str | None  # None if the row is gone
    name: str
    status: str
    status_word: str
    note: str


def job_links(job: Job, admin_site) -> dict:
    """Return the template context: both directions, MOST_LINKS of each at most."""
    before = Predecessor.objects.filter(job_id=job.pk).order_by("pk")
    after = Predecessor.objects.filter(predecessor_id=job.pk).order_by("pk")
    earlier, later = list(before[: MOST_LINKS + 1]), list(after[: MOST_LINKS + 1])
    ids = {link.predecessor_id for link in earlier} | {link.job_id for link in later}
    jobs = jobs_of(ids)
    return {
        "predecessors": [
            predecessor(link, jobs, admin_site) for link in earlier[:MOST_LINKS]
        ],
        "hidden_predecessors": len(earlier) > MOST_LINKS,
        "successors": [
            link_to_job(link.job_id, jobs, note_of(link), admin_site)
            for link in later[:MOST_LINKS]
        ],
        "hidden_successors": len(later) > MOST_LINKS,
        "most_links": MOST_LINKS,
    }


def batch_links(batch: Batch, admin_site) -> list[Link]:
    """Return the jobs that wait for the batch, its callbacks first."""
    rows = Predecessor.objects.filter(batch_id=batch.pk).order_by("pk")[:MOST_LINKS]
    links = list(rows)
    jobs = jobs_of(link.job_id for link in links)
    return [link_to_job(link.job_id, jobs, note_of(link), admin_site) for link in links]


def jobs_of(ids: Iterable[int | None]) -> dict[int, Job]:
    shown = Job.objects.only("task", "status")
    return shown.in_bulk([id for id in ids if id is not None])


def note_of(link: Predecessor) -> str:
    return str(NEEDS[Predecessor.Needs(link.needs)])


def predecessor(link: Predecessor, jobs: dict[int, Job], admin_site) -> Link:
    if link.predecessor_id is not None:
        return link_to_job(link.predecessor_id, jobs, note_of(link), admin_site)
    return link_to_batch(link.batch_id, note_of(link), admin_site)


def link_to_batch(id: int | None, note: str, admin_site) -> Link:
    name = gettext("batch %(id)s") % {"id": id}
    return Link(page("batch", id, admin_site), name, "", "", note)


def link_to_job(id: int, jobs: dict[int, Job], note: str, admin_site) -> Link:
    job = jobs.get(id)
    if job is None:
        return Link(None, f"#{id}", "", gettext("gone"), note)
    name = excerpt(str(job), LONGEST_NAME)
    word = str(Status(job.status).label)
    return Link(page("job", id, admin_site), name, job.status.lower(), word, note)


def page(model: str, id: int | None, admin_site) -> str:
    name = f"admin:pgjobs_{model}_change"
    return reverse(name, args=(id,), current_app=admin_site.name)


def list_url(model: str, admin_site, **filters) -> str:
    name = f"admin:pgjobs_{model}_changelist"
    url = reverse(name, current_app=admin_site.name)
    return f"{url}?{urlencode(filters)}" if filters else url


def page_of_remark(remark: Remark, admin_site) -> str:
    """Return the address of the page that shows more, or nothing if there is none."""
    if not remark.model:
        return ""
    if remark.pk is not None:
        return page(remark.model, remark.pk, admin_site)
    return list_url(remark.model, admin_site, **remark.filters)


def links_by_status(admin_site, counts, statuses: Iterable[Any], **filters) -> str:
    """Return how many jobs there are of each status, as links to their lists.

    `counts`: has a number by the name of each status. `filters`: of the list.
    """
    links = [
        (
            list_url("job", admin_site, **filters, status=status),
            number_and_status(number, status),
        )
        for status in statuses
        if (number := getattr(counts, status.lower()))
    ]
    return format_html_join(", ", '<a href="{}">{}</a>', links)


def number_and_status(number: Any, status: Any) -> str:
    """Return how many jobs have a status, such as "3 failed"."""
    text = gettext("%(number)s %(status)s")
    return text % {"number": number, "status": Status(status).label.lower()}
