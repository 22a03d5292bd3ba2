"""Links to pages and lists of the admin."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext

from ..models.job import Job
from ..models.job_choices import Status
from ..reports.remarks import Remark
from ..reports.texts import excerpt

LONGEST_NAME = 80


class Link(NamedTuple):
    """A job or batch that comes before or after another one."""

    url: str | None  # None if the row is gone
    name: str
    status: str
    status_word: str
    note: str


def jobs_of(ids: Iterable[int | None]) -> dict[int, Job]:
    shown = Job.objects.only("task", "status")
    return shown.in_bulk([id for id in ids if id is not None])


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
