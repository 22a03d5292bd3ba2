"""The admin of tasks: what can be enqueued, and a form that enqueues it.

The parameters of a task are a table, made from the schema that the database stores.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import widgets
from django.contrib.admin.models import ADDITION, LogEntry
from django.http import HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...admin.acting import counted, permitted
from ...admin.auditing import audited
from ...admin.buttons import ButtonsAdmin, button
from ...admin.details import Lineage
from ...admin.filters import ChoiceFilter
from ...admin.links import list_url, page
from ...admin.listing import ReadOnlyAdmin
from ...admin.markup import (
    LONGEST_CELL,
    ago,
    breakable,
    full,
    preformatted,
    status_word,
)
from ...admin.searching import may_see_arguments
from ...base.ids import read_id
from ...base.mask_names import MASKED
from ...base.plain_json import dump
from ...exceptions import (
    AlreadyEnqueued,
    EncryptionError,
    InvalidArguments,
    InvalidTask,
)
from ...features import entries
from ...models.definition import TaskDefinition
from ...models.job import Job
from ...reports.json_text import plain
from ...reports.task_words import with_own
from ...reports.texts import block, excerpt
from ...tasks.registry import registry
from ...tasks.task import Task
from ..encryption.stored import enqueue_encrypted, opened_arguments
from ..overrides.page import OverridesMixin
from .argument_fields import ArgumentsMixin, MomentField

MOST_PARAMETERS = 100
LONGEST_TYPE = 200
DEEPEST = 5  # types within types that are named
TEMPLATE = "admin/pgjobs/taskdefinition/add_job.html"
PARAMETERS_TEMPLATE = "admin/pgjobs/taskdefinition/parameters.html"
LONGEST_TEXT = 20_000
LONGEST_REASON = 300


class JobForm(ArgumentsMixin, forms.Form):
    """The arguments and options of a new job of the task."""

    encrypted: frozenset[str] = frozenset()  # arguments of the job that it is like
    fault = ""  # why these cannot be opened

    queue_name = forms.CharField(
        label=_("Queue"),
        required=False,
        max_length=200,
        widget=widgets.AdminTextInputWidget,
    )
    priority = forms.IntegerField(
        label=_("Priority"), required=False, min_value=-100, max_value=100
    )
    run_after = MomentField(label=_("Run after"), required=False)

    def __init__(self, task: Task, data=None, like: Job | None = None):
        """Make the form; `like` is a job whose arguments and options it begins with."""
        super().__init__(data)
        self.add_arguments(task, enqueues=True)
        self.initial["queue_name"] = task.options.queue_name
        self.initial["priority"] = task.options.priority
        if like is not None:
            self.initial |= {"queue_name": like.queue_name, "priority": like.priority}
            self.begin_like(like)

    def begin_like(self, job: Job) -> None:
        """Begin with the arguments of a job, and keep those that are encrypted."""
        opened: dict[str, Any] = {}
        try:
            opened = opened_arguments(job)
        except EncryptionError as error:
            self.fault = str(error)
        self.encrypted = frozenset(opened)
        self.begin_with(arguments_like(job) | opened, opened)

    def clean(self) -> None:
        """Refuse what would run without the encrypted arguments of the other job."""
        if self.fault:
            raise forms.ValidationError(self.fault)

    @property
    def fieldsets(self) -> list[tuple[Any, list]]:
        options = [self[name] for name in ("queue_name", "priority", "run_after")]
        arguments = [self[name] for name in self.argument_names]
        return [(_("Arguments"), arguments), (_("Job"), options)]

    def enqueue(self) -> list[Job] | None:
        """Enqueue the job, or the jobs of ALL.

        Returns None if the arguments were refused: the form has the errors then.
        """
        positional, named = self.given()
        try:
            task = self.task.using(
                queue_name=self.cleaned_data["queue_name"] or None,
                priority=self.cleaned_data["priority"],
                run_after=self.cleaned_data["run_after"],
            )
            enqueued = enqueue_encrypted(task, positional, named, self.encrypted)
        except InvalidArguments as error:
            self.add_faults(error.faults)
            return None
        except (AlreadyEnqueued, InvalidTask, EncryptionError) as error:
            self.add_error(None, str(error))
            return None
        jobs = enqueued if isinstance(enqueued, list) else [enqueued]
        return [job for job in jobs if job is not None]


def arguments_like(job: Job) -> dict[str, Any]:
    """Return the arguments of a job, without those that are masked for it alone.

    Another job would show what is entered in their fields.
    """
    arguments = job.kwargs if isinstance(job.kwargs, dict) else {}
    own = with_own((), dump((job.keys or {}).get(MASKED)))
    return {name: value for name, value in arguments.items() if name not in own}


class Parameter(NamedTuple):
    name: str
    type: str
    default: str  # empty if a value has to be given
    description: str


def parameters(schema: Any) -> Iterator[Parameter]:
    """Yield the parameters; SQL may have stored anything, which yields none."""
    known = part_of(schema, "properties", dict)
    for name in part_of(schema, "x-order", list)[:MOST_PARAMETERS]:
        each = known.get(str(name))
        if isinstance(each, dict):
            default = dump(each["default"]) if "default" in each else ""
            yield Parameter(
                excerpt(str(name), LONGEST_CELL),
                excerpt(type_of(each), LONGEST_TYPE),
                excerpt(default, LONGEST_CELL),
                excerpt(str(each.get("description", "")), LONGEST_TYPE),
            )


def part_of(schema: Any, name: str, kind: type) -> Any:
    found = schema.get(name) if isinstance(schema, dict) else None
    return found if isinstance(found, kind) else kind()


def type_of(schema: Any, depth: int = 0) -> str:
    """Return in words what a schema takes."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return gettext("anything")
    if choices := part_of(schema, "enum", list):
        return " | ".join(dump(choice) for choice in choices[:MOST_PARAMETERS])
    if others := part_of(schema, "anyOf", list):
        return " | ".join(type_of(other, depth + 1) for other in others)
    names = schema.get("type", gettext("anything"))
    name = " | ".join(map(str, names)) if isinstance(names, list) else str(names)
    if "items" in schema:
        return f"{name} ({type_of(schema['items'], depth + 1)})"
    return str(schema["format"]) if "format" in schema else name


class StateFilter(ChoiceFilter):
    title = _("state")
    parameter_name = "state"
    choices_by_name = {
        "active": (_("Active"), {"gone_at__isnull": True}),
        "gone": (_("Gone"), {"gone_at__isnull": False}),
    }


def is_known(definition: TaskDefinition) -> bool:
    """Whether this process has the code of the task, which checks the arguments."""
    return definition.is_active and registry.find(definition.name) is not None


@admin.register(TaskDefinition)
class TaskDefinitionAdmin(OverridesMixin, ReadOnlyAdmin, ButtonsAdmin):
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
        "shown_parameters",
        "shown_options",
    )
    actions_row = ("pgjobs_taskdefinition_add_job",)
    actions_detail = (*actions_row, "pgjobs_taskdefinition_override")

    def get_fields(self, request, obj=None):
        may_see_jobs = request.user.has_perm("pgjobs.view_job")
        hidden = set() if may_see_jobs else {"jobs"}
        if not obj.description:
            hidden.add("full_description")
        fields = [each for each in self.fields if each not in hidden]
        place = fields.index("shown_parameters")
        site, user = self.admin_site, request.user
        made = entries("admin", "TASK_FIELDS")
        of_features = [field for fields_for in made for field in fields_for(site, user)]
        of_features += self.fields_of_overrides(request)
        return [*fields[:place], *of_features, *fields[place:]]

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
        with audited(request, "enqueue", "job", chosen=task) as entry:
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
        if definition.is_active and definition.paused_since:
            return status_word(
                "waiting", gettext("Paused"), ago(definition.paused_since)
            )
        if definition.is_active:
            changed = gettext("changed at run time") if definition.is_changed else ""
            return status_word("ready", gettext("Active"), changed)
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

    @admin.display(description=_("parameters"))
    def shown_parameters(self, definition: TaskDefinition) -> str:
        context = {"parameters": list(parameters(definition.parameters))}
        table = render_to_string(PARAMETERS_TEMPLATE, context)
        return format_html("{}{}", table, self.folded(definition.parameters))

    @admin.display(description=_("options"))
    def shown_options(self, definition: TaskDefinition) -> str:
        return self.folded(definition.options)

    def folded(self, value) -> str:
        text = preformatted(plain(dump(value)), LONGEST_TEXT)
        return format_html("<details><summary>JSON</summary>{}</details>", text)


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Link the job to its task; return where to run the task again with changes."""
    if not request.user.has_perm("pgjobs.view_taskdefinition"):
        return {}
    definition = TaskDefinition.objects.filter(name=job.task).first()
    if definition is None:
        return {}
    job.task_url = page("taskdefinition", definition.pk, admin_site)
    may_run = may_see_arguments(request) and request.user.has_perm("pgjobs.add_job")
    if not may_run or not is_known(definition):
        return {}
    name = "admin:pgjobs_taskdefinition_add_job"
    url = reverse(name, args=(definition.pk,), current_app=admin_site.name)
    return {"run_again": f"{url}?like={job.pk}"}


JOB_CONTEXTS = (job_context,)
