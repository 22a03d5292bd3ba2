"""The admin of tasks: what can be enqueued, and a form that enqueues it."""

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, LogEntry
from django.http import HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.ids import read_id
from ..base.plain_json import dump
from ..exceptions import UnknownTask
from ..models import Job, TaskDefinition
from ..reports.durations import seconds_in_words
from ..reports.errors import last_failure
from ..reports.figures import PERIODS, figures
from ..reports.json_text import plain
from ..reports.texts import block, excerpt
from ..tasks.registry import registry
from .acting import counted, permitted
from .auditing import noting
from .buttons import ButtonsAdmin, button
from .filters import ChoiceFilter
from .job_form import JobForm
from .links import list_url, page
from .listing import ReadOnlyAdmin
from .markup import (
    LONGEST_CELL,
    ago,
    breakable,
    full,
    preformatted,
    status_word,
)
from .parameters import parameters_table

TEMPLATE = "admin/pgjobs/taskdefinition/add_job.html"
LONGEST_TEXT = 20_000
LONGEST_REASON = 300


class StateFilter(ChoiceFilter):
    title = _("state")
    parameter_name = "state"
    choices_by_name = {
        "active": (_("Active"), {"gone_at__isnull": True}),
        "gone": (_("Gone"), {"gone_at__isnull": False}),
    }


def is_known(definition: TaskDefinition) -> bool:
    """Whether this process has the code of the task, which checks the arguments."""
    try:
        registry.get(definition.name)
    except UnknownTask:
        return False
    return definition.is_active


@admin.register(TaskDefinition)
class TaskDefinitionAdmin(ReadOnlyAdmin, ButtonsAdmin):
    """Tasks, as the code declares them. The admin does not edit them."""

    list_display = ("short_name", "state", "takes", "queue")
    list_display_links = ("short_name",)
    list_filter = (StateFilter,)
    when_empty = _("Tasks appear here after: manage.py synctasks")
    ordering = ("name",)
    sortable_by = ("short_name",)
    search_fields = ("name", "origin")
    fields = (
        "short_name",
        "state",
        "full_origin",
        "full_description",
        "jobs",
        "last_day",
        "last_failure",
        "shown_parameters",
        "shown_options",
    )
    actions_row = actions_detail = ("pgjobs_taskdefinition_add_job",)

    def get_fields(self, request, obj=None):
        may_see_jobs = request.user.has_perm("pgjobs.view_job")
        hidden = set() if may_see_jobs else {"jobs", "last_failure"}
        if not obj.description:
            hidden.add("full_description")
        return [each for each in self.fields if each not in hidden]

    has_add_job_permission = permitted("add_job")

    @button(
        label=_("Add job"), path="add_job", permission="add_job", is_offered=is_known
    )
    def pgjobs_taskdefinition_add_job(self, request, definition):
        url_back = self.url_back(request, definition)
        if not is_known(definition):
            text = gettext("No code here declares the task %(task)s.")
            name = excerpt(definition.name, LONGEST_CELL)
            self.message_user(request, text % {"task": name}, messages.ERROR)
            return HttpResponseRedirect(url_back)
        task = registry.get(definition.name)
        data = request.POST if request.method == "POST" else None
        form = JobForm(task, data, self.job_to_repeat(request, task.name))
        jobs = self.enqueued(request, task.name, form) if form.is_valid() else None
        if jobs is None:
            return self.form_page(request, definition, form, url_back)
        self.report(request, definition, jobs)
        return HttpResponseRedirect(self.url_of_jobs(request, jobs) or url_back)

    def enqueued(self, request, task: str, form: JobForm) -> list[Job] | None:
        """Return the new jobs; None if the form turns out to have errors."""
        with noting(request, "enqueue", "job", chosen=task) as entry:
            jobs = form.enqueue()
            entry.number = len(jobs or ())
            entry.object_id = jobs[0].pk if jobs and len(jobs) == 1 else None
        return jobs

    def job_to_repeat(self, request, task: str) -> Job | None:
        """Return the job whose page led here, if the user may see its arguments."""
        id = read_id(request.GET.get("like", ""))
        may_see = request.user.has_perms(
            ("pgjobs.view_job", "pgjobs.view_job_arguments")
        )
        if id is None or not may_see:
            return None
        return Job.objects.filter(pk=id, task=task).first()

    def form_page(self, request, definition, form: JobForm, url_back: str):
        name = excerpt(definition.name, LONGEST_CELL)
        title = gettext("Add a job of %(task)s") % {"task": name}
        context = {
            "media": self.media + form.media,
            "original": name,
            "description": block(definition.description, LONGEST_TEXT),
            "form": form,
            "fieldsets": form.fieldsets,
            "url_back": url_back,
        }
        return self.page(request, TEMPLATE, title, context)

    def report(self, request, definition, jobs: list[Job]) -> None:
        LogEntry.objects.log_actions(
            request.user.pk, jobs, ADDITION, gettext("Enqueued by hand.")
        )
        if not jobs:
            text = gettext("Nothing was enqueued: another job holds the unique key.")
        elif len(jobs) == 1:
            text = gettext("There is job %(id)d of %(task)s.")
            text %= {"id": jobs[0].pk, "task": excerpt(definition.name, LONGEST_CELL)}
        else:
            text = gettext("%(jobs)s were enqueued.") % {
                "jobs": counted(Job, len(jobs))
            }
        level = messages.SUCCESS if jobs else messages.WARNING
        self.message_user(request, text, level)

    def url_of_jobs(self, request, jobs: list[Job]) -> str | None:
        """Return the page of a single job, if the user may see it."""
        if len(jobs) != 1 or not request.user.has_perm("pgjobs.view_job"):
            return None
        return page("job", jobs[0].pk, self.admin_site)

    # Columns

    full_description = full("description", _("description"))
    full_origin = full("origin", _("origin"))

    @admin.display(description=_("name"), ordering="name")
    def short_name(self, definition: TaskDefinition) -> str:
        return breakable(excerpt(definition.name, 2 * LONGEST_CELL))

    @admin.display(description=_("state"))
    def state(self, definition: TaskDefinition) -> str:
        if definition.is_active:
            return status_word("ready", gettext("Active"))
        return status_word("waiting", gettext("Gone"), ago(definition.gone_at))

    @admin.display(description=_("parameters"))
    def takes(self, definition: TaskDefinition) -> str:
        names = definition.parameters.get("x-order") or []
        return excerpt(", ".join(map(str, names)), 2 * LONGEST_CELL)

    @admin.display(description=_("queue"))
    def queue(self, definition: TaskDefinition) -> str:
        return excerpt(str(definition.options.get("queue_name")), LONGEST_CELL)

    @admin.display(description=_("jobs"))
    def jobs(self, definition: TaskDefinition) -> str:
        url = list_url("job", self.admin_site, q=definition.name)
        return format_html('<a href="{}">{}</a>', url, gettext("Show them"))

    @admin.display(description=_("last 24 hours"))
    def last_day(self, definition: TaskDefinition) -> str:
        """Show how many jobs ended, and how long half and 95 % of them took."""
        day = PERIODS["day"]
        found = figures(TaskDefinition.objects.db, day, task=definition.name).tasks
        if not found:
            return gettext("No job has ended.")
        text = gettext(
            "%(ended)d jobs ended, %(failed)d of them failed (%(rate)s). Half of the "
            "attempts ran for %(half)s at most, 95 %% for %(most)s."
        )
        return text % {
            "ended": found[0].ended,
            "failed": found[0].failed,
            "rate": f"{found[0].failure_rate:.0%}",
            "half": seconds_in_words(found[0].run_time(0.5)),
            "most": seconds_in_words(found[0].run_time(0.95)),
        }

    @admin.display(description=_("last failure"), empty_value=_("None."))
    def last_failure(self, definition: TaskDefinition) -> str | None:
        """Show the job of the task that failed last, if it has not run again since."""
        job = last_failure(TaskDefinition.objects.db, definition.name)
        if job is None:
            return None
        link = format_html(
            '<a href="{}">#{}</a>', page("job", job.pk, self.admin_site), str(job.pk)
        )
        reason = excerpt(job.reason_start, LONGEST_REASON)
        return format_html("{} {}: {}", link, ago(job.finished_at), reason)

    @admin.display(description=_("parameters"))
    def shown_parameters(self, definition: TaskDefinition) -> str:
        table = parameters_table(definition.parameters)
        return format_html("{}{}", table, self.folded(definition.parameters))

    @admin.display(description=_("options"))
    def shown_options(self, definition: TaskDefinition) -> str:
        return self.folded(definition.options)

    def folded(self, value) -> str:
        text = preformatted(plain(dump(value)), LONGEST_TEXT)
        return format_html("<details><summary>JSON</summary>{}</details>", text)
