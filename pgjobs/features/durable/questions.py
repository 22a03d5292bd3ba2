"""In the admin: what waits for the answer of a user, and the page that takes it."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.http import require_http_methods

from ...admin.buttons import FROM_PAGE, ButtonsAdmin
from ...admin.links import jobs_of, list_url, page
from ...admin.listing import ReadOnlyAdmin
from ...admin.markup import LONGEST_CELL, ago, breakable, exact
from ...base.ids import read_id
from ...models.job import Job
from ...reports.texts import excerpt
from ..desk.links import Links, Table, name_of_task
from . import queue
from .answering import ANSWER_JOB, refusal
from .links import link_of, token_of
from .tables import MOST_LISTED, Wait
from .visits import FORM, Reply, answered

LONGEST_QUESTION = 300
MOST_SHOWN = 5  # on the overview
MINE = "you"  # the value of the filter
FORM_TEMPLATE = "admin/pgjobs/wait/answer.html"
MESSAGE_TEMPLATE = "admin/pgjobs/wait/message.html"
# What the list reads. The rest of what is asked may be large.
COLUMNS = ("job_id", "life", "name", "label", "permission", "opened_at", "deadline")


def may_answer(user: Any, wait: Wait) -> bool:
    return not refusal(user, wait.permission or ANSWER_JOB)


def may_view_jobs(user: Any) -> bool:
    return user.has_perm("pgjobs.view_job")


def questions(user: Any, most: int, is_theirs: bool = True) -> list[int]:
    """Return the ids of the oldest open questions, the oldest first.

    `is_theirs`: only those that the user may answer.
    """
    alias = Wait.objects.db
    permissions = queue.asked_permissions(alias)
    if is_theirs:
        permissions = [each for each in permissions if not refusal(user, each)]
    return queue.answerable(alias, permissions, most) if permissions else []


def shown(waits: QuerySet, ids: list[int]) -> QuerySet:
    """Return these waits with what lists show of them.

    Their jobs are looked up by their ids: a join might read all jobs.
    """
    start = Left(KT("asked__title"), 2 * LONGEST_QUESTION)
    rows = waits.filter(pk__in=ids).only(*COLUMNS).annotate(title_start=start)
    return rows.order_by("opened_at", "pk")


def tasks_of(waits: Iterable[Wait]) -> dict[int, str]:
    """Return the tasks by job; that of a job which has just gone has no name."""
    ids = {wait.job_id for wait in waits}
    jobs = jobs_of(ids)
    return {id: jobs[id].task if id in jobs else "" for id in ids}


def question_for(user: Any, wait: Wait) -> str:
    """Return the question, or its name for who may not see the values in it."""
    may_see = may_answer(user, wait) or user.has_perm("pgjobs.view_job_arguments")
    title = wait.title_start if may_see else ""
    return excerpt(title or wait.answer_name, LONGEST_QUESTION)


def answer_address(wait: Wait, admin_site, query: str = "") -> str:
    """Return the address of the page in the admin. Only who may answer gets one."""
    token = token_of(wait.job_id, wait.life, wait.answer_name)
    url = reverse(
        "admin:pgjobs_wait_answer", args=(token,), current_app=admin_site.name
    )
    return f"{url}?{query}" if query else url


class WhoseFilter(admin.SimpleListFilter):
    """For those who may look at jobs, and so at the questions of all."""

    title = _("who answers")
    parameter_name = "by"

    def lookups(self, request, model_admin):
        return [(MINE, _("You"))] if may_view_jobs(request.user) else []

    def queryset(self, request, queryset):
        return queryset  # see `WaitAdmin.get_queryset`


@admin.register(Wait)
class WaitAdmin(ReadOnlyAdmin, ButtonsAdmin):
    """The questions that a user may answer.

    Each member of the staff may look here, and finds what the permissions of the
    questions allow. Who may look at jobs sees all questions, as on the pages of jobs.
    """

    list_display = ("question", "job_link", "task_name", "since", "until", "to_answer")
    list_display_links = None
    list_filter = (WhoseFilter,)
    ordering = ("opened_at", "pk")
    when_empty = _("Nothing waits for your answer.")

    # Permissions

    def has_view_permission(self, request, obj=None) -> bool:
        if obj is None:
            return True
        return may_view_jobs(request.user) or may_answer(request.user, obj)

    def has_module_permission(self, request) -> bool:
        """Show the list in the index to those whom something asks, or may ask."""
        user = request.user
        if may_view_jobs(user) or not refusal(user, ANSWER_JOB):
            return True
        if not hasattr(request, "pgjobs_is_asked"):
            request.pgjobs_is_asked = bool(questions(user, 1))
        return request.pgjobs_is_asked

    # The list

    def is_theirs(self, request) -> bool:
        """Whether the list has only what the user may answer."""
        is_chosen = request.GET.get(WhoseFilter.parameter_name) == MINE
        return is_chosen or not may_view_jobs(request.user)

    def get_queryset(self, request):
        ids = questions(request.user, MOST_LISTED + 1, self.is_theirs(request))
        request.pgjobs_has_more = len(ids) > MOST_LISTED
        return shown(super().get_queryset(request), ids[:MOST_LISTED])

    def look_up(self, request, rows):
        tasks = tasks_of(rows)
        for wait in rows:
            wait.shown_task = breakable(excerpt(tasks[wait.job_id], LONGEST_CELL))
            wait.shown_question = question_for(request.user, wait)
            wait.answer_at = wait.job_at = ""
            if may_answer(request.user, wait):
                wait.answer_at = answer_address(wait, self.admin_site)
            if may_view_jobs(request.user):
                wait.job_at = page("job", wait.job_id, self.admin_site)

    def empty_note(self, changelist):
        return self.when_empty

    def changelist_view(self, request, extra_context=None):
        title = _("Waits for you") if self.is_theirs(request) else _("Waits for people")
        response = super().changelist_view(
            request, {"title": title, **(extra_context or {})}
        )
        if hasattr(response, "context_data"):
            has_more = getattr(request, "pgjobs_has_more", False)
            response.context_data["most"] = MOST_LISTED if has_more else None
        return response

    @admin.display(description=_("question"))
    def question(self, wait: Wait) -> str:
        return wait.shown_question

    @admin.display(description=_("job"))
    def job_link(self, wait: Wait) -> str:
        name = f"#{wait.job_id}"
        if not wait.job_at:
            return name
        return format_html('<a href="{}">{}</a>', wait.job_at, name)

    @admin.display(description=_("task"))
    def task_name(self, wait: Wait) -> str:
        return wait.shown_task

    @admin.display(description=_("since"))
    def since(self, wait: Wait) -> str:
        return ago(wait.opened_at)

    @admin.display(description=_("until"))
    def until(self, wait: Wait) -> str:
        return ago(wait.deadline)

    @admin.display(description=_("answer"))
    def to_answer(self, wait: Wait) -> str:
        if not wait.answer_at:
            return self.get_empty_value_display()
        return answer_link(wait.answer_at, wait.shown_question)

    # The page

    def change_view(self, request, object_id, form_url="", extra_context=None):
        """Lead to the page for the answer, or to that of the job."""
        id = read_id(object_id)
        wait = Wait.objects.filter(pk=id).first() if id is not None else None
        if wait is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        # Of a link that is enough to answer, others must not get one.
        if may_answer(request.user, wait):
            return HttpResponseRedirect(answer_address(wait, self.admin_site))
        if not may_view_jobs(request.user):
            raise PermissionDenied
        return HttpResponseRedirect(page("job", wait.job_id, self.admin_site))

    def get_urls(self):
        view = self.admin_site.admin_view(self.answer_view)
        return [
            path("answer/<str:token>/", view, name="pgjobs_wait_answer"),
            *super().get_urls(),
        ]

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    @method_decorator(xframe_options_deny)
    def answer_view(self, request: HttpRequest, token: str) -> HttpResponse:
        """Show what a job asks, and take the answer: see `visits.py`."""
        link = link_of(token)
        if link is None:
            raise Http404("There is no such link.")
        reply = answered(request, link)
        job_at = self.job_at(request, link.job_id)
        back = self.back(request, job_at)
        if reply.state == "thanks":
            return self.thank(request, reply, back)
        context: dict[str, Any] = {
            "reply": reply,
            "wait": reply.wait,
            "form": reply.form,
            "job_id": link.job_id,
            "job_at": job_at,
            "url_back": back,
        }
        title, template = reply.heading, MESSAGE_TEMPLATE
        if reply.state == FORM and reply.wait is not None:
            title, template = excerpt(reply.wait.title, 1_000), FORM_TEMPLATE
            context["until"] = exact(reply.wait.deadline)
        response = self.page(
            request, template, title, {**context, "original": str(title)}
        )
        response.status_code = reply.status
        return response

    def job_at(self, request, job_id: int) -> str:
        """Return the address of the job, if the user may see it and it is there."""
        is_there = may_view_jobs(request.user) and Job.objects.filter(pk=job_id)
        return page("job", job_id, self.admin_site) if is_there else ""

    def back(self, request, job_at: str) -> str:
        """Return where the link was: the page of the job, or the list."""
        if job_at and request.GET.get("from") == "page":
            return job_at
        return list_url("wait", self.admin_site)

    def thank(self, request, reply: Reply, back: str) -> HttpResponse:
        """Lead back, so that to load the page again sends no second answer."""
        if reply.wait is not None:
            text = gettext("Answered: %(name)s") % {"name": reply.wait.answer_name}
            self.log_change(request, reply.wait.job, text)
        self.message_user(request, reply.text, messages.SUCCESS)
        return HttpResponseRedirect(back)


def answer_link(address: str, question: str) -> str:
    text = gettext("Answer this")
    label = f"{text}: {question}"
    return format_html('<a href="{}" aria-label="{}">{}</a>', address, label, text)


def address_on_page(user: Any, wait: Wait, admin_site) -> str:
    """Return where the user may answer what the page of a job shows, or nothing."""
    if wait.kind != "answer" or not may_answer(user, wait):
        return ""
    return answer_address(wait, admin_site, FROM_PAGE)


# The overview


def overview_tables(overview: Links) -> Iterator[Table]:
    """Yield what waits for the user: how much, and the oldest few."""
    ids = questions(overview.user, MOST_LISTED + 1)
    if not ids:
        return
    number = f"{MOST_LISTED:,}+" if len(ids) > MOST_LISTED else f"{len(ids):,}"
    columns = (_("Question"), _("Task"), _("Since"), _("Until"), _("Answer"))
    waits = list(shown(Wait.objects.all(), ids[:MOST_SHOWN]))
    tasks = tasks_of(waits)
    rows = [row(overview, wait, tasks[wait.job_id]) for wait in waits]
    title = gettext("Waits for you (%(number)s)") % {"number": number}
    more = ""
    if len(ids) > len(rows):
        url = list_url("wait", overview.site, **{WhoseFilter.parameter_name: MINE})
        more = format_html('<a href="{}">{}</a>', url, gettext("Show all"))
    yield Table(title, columns, rows, "", more)


def row(overview: Links, wait: Wait, task: str) -> tuple[Any, ...]:
    question = question_for(overview.user, wait)
    name = name_of_task(f"{task} #{wait.job_id}")
    return (
        question,
        overview.link("job", wait.job_id, name),
        ago(wait.opened_at),
        ago(wait.deadline),
        answer_link(answer_address(wait, overview.site), question),
    )
