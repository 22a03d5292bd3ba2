"""What the desk adds to the admin: pages, and filters of jobs and fields of tasks.

And muting: the overview hides a group of errors until a new version has them.
"""

from collections.abc import Callable, Iterator
from functools import cache

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q
from django.http import HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from ...admin.acts import Act
from ...admin.auditing import audited
from ...admin.filters import LONGEST_CHOICE, IdFilter, JobFilter, add_match
from ...admin.links import page
from ...admin.markup import ago
from ...models.definition import TaskDefinition
from ...models.job import Job
from ...models.job_choices import Status
from ...queue.acts import Changed
from ...reports.job_filters import checked
from ...reports.texts import excerpt
from . import ended_workers, overview_entry
from .acknowledge_view import acknowledge_view
from .charts import about
from .errors import branches_with_error, latest_errors
from .errors import last_failure as last_failed
from .figures import PERIODS, figures
from .job_filters import NO_EXCEPTION
from .overview import overview_view
from .tables import ErrorGroup

REGISTERED = (ended_workers.EndedWorkerAdmin, overview_entry.OverviewAdmin)
LONGEST_TITLE = 200
PERMISSIONS = ("pgjobs.view_job", "pgjobs.mute_errorgroup")
LONGEST_REASON = 300
WITHOUT_EXCEPTION = ("", NO_EXCEPTION)


def mute(groups) -> Changed:
    return Changed(groups.update(muted_version=F("version")), 0)


def unmute(groups) -> Changed:
    return Changed(groups.update(muted_version=None), 0)


MUTE = Act(
    verb="mute",
    permission="mute",
    run=mute,
    is_offered=lambda group: not group.is_muted,
    label=_("Mute"),
    effect=_(
        "The overview no longer lists these errors, until they appear in a new version "
        "of the code. Jobs go on failing as before."
    ),
    done=_("%(name)s is muted."),
)
UNMUTE = Act(
    verb="unmute",
    permission="mute",
    run=unmute,
    is_offered=lambda group: group.is_muted,
    label=_("Unmute"),
    effect=_("The overview lists these errors again."),
    done=_("%(name)s is no longer muted."),
)


@require_http_methods(["GET", "HEAD", "POST"])
def mute_view(request, admin, pk: int):
    """Mute a group of errors, or unmute it; a GET shows what would happen."""
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    group = get_object_or_404(ErrorGroup, pk=pk)
    act = UNMUTE if group.is_muted else MUTE
    url_back = reverse("admin:pgjobs_overview", current_app=admin.admin_site.name)
    if request.method == "POST":
        carry_out(request, admin, act, group)
        return HttpResponseRedirect(url_back)
    subject = excerpt(str(group), LONGEST_TITLE)
    context = {"subject": subject, "is_possible": True, "url_back": url_back}
    return admin.confirmation_page(request, act, act.form(), context)


def carry_out(request, admin, act: Act, group: ErrorGroup) -> None:
    name = str(group)
    with audited(request, act.verb, "errorgroup", group.pk, chosen=name) as entry:
        entry.number = act.run(ErrorGroup.objects.filter(pk=group.pk)).changed
    text = act.done % {"name": excerpt(name, LONGEST_TITLE)}
    admin.message_user(request, text, messages.SUCCESS)


# Route, name and view.
PAGES = (
    ("overview/", "pgjobs_job_overview", overview_view),  # where it was at first
    ("errors/<int:pk>/mute/", "pgjobs_job_mute", mute_view),
    ("remarks/acknowledge/", "pgjobs_job_acknowledge", acknowledge_view),
)


@admin.display(description=_("last 24 hours"))
def last_day(definition: TaskDefinition) -> str:
    """Show how many jobs ended, and how long half and 95 % of them took."""
    day = PERIODS["day"]
    found = figures(TaskDefinition.objects.db, day, task=definition.name).tasks
    if not found:
        return gettext("No job has ended.")
    text = gettext(
        "%(ended)d jobs ended, %(failed)d of them failed (%(rate)s). Run time: p50 "
        "%(half)s, p95 %(most)s."
    )
    return text % {
        "ended": found[0].ended,
        "failed": found[0].failed,
        "rate": f"{found[0].failure_rate:.0%}",
        "half": about(found[0].run_time(0.5)),
        "most": about(found[0].run_time(0.95)),
    }


@cache
def last_failure_on(site: admin.AdminSite) -> Callable:
    """Return the field of a task that links to a job on this site."""

    @admin.display(description=_("last failure"), empty_value=_("None."))
    def last_failure(definition: TaskDefinition) -> str | None:
        """Show the job of the task that failed last, if it has not run again since."""
        job = last_failed(TaskDefinition.objects.db, definition.name)
        if job is None:
            return None
        url = page("job", job.pk, site)
        link = format_html('<a href="{}">#{}</a>', url, str(job.pk))
        reason = excerpt(job.reason_start, LONGEST_REASON)
        return format_html("{} {}: {}", link, ago(job.finished_at), reason)

    return last_failure


def task_fields(site: admin.AdminSite, user) -> Iterator[Callable]:
    """Yield the fields of a task for one user of a site."""
    yield last_day
    if user.has_perm("pgjobs.view_job"):
        yield last_failure_on(site)


TASK_FIELDS = (task_fields,)


class GroupFilter(IdFilter):
    title = _("group of errors")
    parameter_name = "group"
    has_one_status = have_ended = True
    has_row = False  # an index has its jobs in the order of their ends

    def name_of(self, id: int) -> str:
        group = ErrorGroup.objects.filter(pk=id).first()
        return f"{group.exception_class} ({group.place})" if group else f"#{id}"


class ErrorFilter(JobFilter):
    """Failed jobs by the class of their last exception; offered among failed jobs."""

    title = _("error")
    parameter_name = "error"
    has_one_status = have_ended = True

    @classmethod
    def has_branches(cls, request) -> bool:
        return request.GET["error"] not in WITHOUT_EXCEPTION

    def narrow_list(self, request, rows, text: str):
        if text in WITHOUT_EXCEPTION:
            add_match(request, Q(error_group=None))  # no index lists these
        else:
            request.pgjobs_branches = branches_with_error(rows.db, checked(text))
        return rows.failed()

    def lookups(self, request, model_admin):
        value = request.GET.get(self.parameter_name) or None
        if value is None and request.GET.get("status") != Status.FAILED:
            return []
        names = {*latest_errors(Job.objects.db)}
        names |= {value} if value is not None else set()
        return [
            (name or NO_EXCEPTION, excerpt(name, LONGEST_CHOICE) or _("No exception"))
            for name in sorted(names)
        ]


JOB_FILTERS = (ErrorFilter, GroupFilter)
