"""The admin of tasks: what there is to enqueue, and a form that does it."""

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, LogEntry
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..base.plain_json import dump
from ..exceptions import UnknownTask
from ..models import Job, TaskDefinition
from ..tasks.registry import registry
from .buttons import ButtonsAdmin, button
from .job_form import JobForm
from .json_text import indented, tokens
from .readonly import ReadOnlyAdmin
from .texts import block, excerpt

TEMPLATE = "admin/pgjobs/taskdefinition/add_job.html"
LONGEST_CELL = 80
LONGEST_TEXT = 20_000


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request, model_admin):
        return [("active", _("Active")), ("gone", _("Gone"))]

    def queryset(self, request, queryset):
        if self.value() in ("active", "gone"):
            return queryset.filter(gone_at__isnull=self.value() == "active")
        return queryset


def is_known(definition: TaskDefinition) -> bool:
    """Whether this process has the code of the task, which checks the arguments."""
    try:
        registry.get(definition.name)
    except UnknownTask:
        return False
    return definition.is_active


class TaskDefinitionAdmin(ReadOnlyAdmin, ButtonsAdmin):
    """Tasks, as the code declares them. Nobody edits them by hand."""

    list_display = ("short_name", "state", "takes", "queue")
    list_display_links = ("short_name",)
    list_filter = (StateFilter,)
    ordering = ("name",)
    sortable_by = ("short_name",)
    search_fields = ("name", "origin")
    show_facets = admin.ShowFacets.NEVER
    actions = None
    fields = (
        "short_name",
        "state",
        "origin",
        "full_description",
        "jobs",
        "shown_parameters",
        "shown_options",
    )
    actions_row = actions_detail = ("pgjobs_taskdefinition_add_job",)

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

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
        form = JobForm(task, request.POST if request.method == "POST" else None)
        jobs = form.enqueue() if form.is_valid() else None
        if jobs is None:
            return self.form_page(request, definition, form, url_back)
        self.report(request, definition, jobs)
        return HttpResponseRedirect(self.url_of_jobs(request, jobs) or url_back)

    def has_add_job_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.add_job")

    def form_page(self, request, definition, form: JobForm, url_back: str):
        name = excerpt(definition.name, LONGEST_CELL)
        return TemplateResponse(
            request,
            TEMPLATE,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "media": self.media + form.media,
                "has_view_permission": True,
                "title": gettext("Add a job of %(task)s") % {"task": name},
                "original": name,
                "description": block(definition.description, LONGEST_TEXT),
                "form": form,
                "fieldsets": form.fieldsets,
                "url_back": url_back,
            },
        )

    def report(self, request, definition, jobs: list[Job]) -> None:
        LogEntry.objects.log_actions(
            request.user.pk, jobs, ADDITION, gettext("Enqueued by hand.")
        )
        if not jobs:
            text = gettext("Nothing was enqueued: another job holds the unique key.")
            self.message_user(request, text, messages.WARNING)
        elif len(jobs) == 1:
            text = gettext("There is job %(id)d of %(task)s.")
            named = {"id": jobs[0].pk, "task": excerpt(definition.name, LONGEST_CELL)}
            self.message_user(request, text % named, messages.SUCCESS)
        else:
            text = ngettext(
                "%(count)d job was enqueued.",
                "%(count)d jobs were enqueued.",
                len(jobs),
            )
            self.message_user(request, text % {"count": len(jobs)}, messages.SUCCESS)

    def url_of_jobs(self, request, jobs: list[Job]) -> str | None:
        """Return the page of a single job, for those who may see it."""
        if len(jobs) != 1 or not request.user.has_perm("pgjobs.view_job"):
            return None
        site = self.admin_site.name
        return reverse("admin:pgjobs_job_change", args=(jobs[0].pk,), current_app=site)

    # Columns

    @admin.display(description=_("name"), ordering="name")
    def short_name(self, definition: TaskDefinition) -> str:
        return excerpt(definition.name, 2 * LONGEST_CELL)

    @admin.display(description=_("state"))
    def state(self, definition: TaskDefinition) -> str:
        if definition.is_active:
            return format_html(
                '<span class="pgjobs-status pgjobs-ready">{}</span>', gettext("Active")
            )
        since = date_format(localtime(definition.gone_at), "SHORT_DATETIME_FORMAT")
        return format_html(
            '<span class="pgjobs-status pgjobs-waiting">{}</span> {}',
            gettext("Gone"),
            gettext("since %(time)s") % {"time": since},
        )

    @admin.display(description=_("parameters"))
    def takes(self, definition: TaskDefinition) -> str:
        names = definition.parameters.get("x-order") or []
        return excerpt(", ".join(map(str, names)), 2 * LONGEST_CELL)

    @admin.display(description=_("queue"))
    def queue(self, definition: TaskDefinition) -> str:
        return excerpt(str(definition.options.get("queue_name")), LONGEST_CELL)

    @admin.display(description=_("description"))
    def full_description(self, definition: TaskDefinition) -> str:
        return format_html(
            '<pre class="pgjobs-text">{}</pre>',
            block(definition.description, LONGEST_TEXT),
        )

    @admin.display(description=_("jobs"))
    def jobs(self, definition: TaskDefinition) -> str:
        url = reverse("admin:pgjobs_job_changelist", current_app=self.admin_site.name)
        query = urlencode({"q": definition.name})
        return format_html('<a href="{}?{}">{}</a>', url, query, gettext("Show them"))

    @admin.display(description=_("parameters"))
    def shown_parameters(self, definition: TaskDefinition) -> str:
        return self.shown(definition.parameters)

    @admin.display(description=_("options"))
    def shown_options(self, definition: TaskDefinition) -> str:
        return self.shown(definition.options)

    def shown(self, value) -> str:
        text = block("".join(indented(tokens(dump(value)))), LONGEST_TEXT)
        return format_html('<pre class="pgjobs-text">{}</pre>', text)
