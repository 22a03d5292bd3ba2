"""The admin of queues: how full they are, and to pause, resume and limit them."""

from dataclasses import dataclass

from django.contrib import admin, messages
from django.http import HttpResponseRedirect
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Job, Queue
from ..reports.status import LIVE, QueueStatus, database_time, queue_statuses
from .buttons import ButtonsAdmin, button
from .confirmation import ConfirmationPages
from .forms import ActForm
from .listing import links_by_status
from .texts import excerpt

LONGEST_CELL = 80


@dataclass(frozen=True, kw_only=True)
class QueueAct:
    verb: str  # in URLs and names, and the method of the queue
    label: str
    effect: str  # on the confirmation page
    done: str
    in_vain: str  # what is said when somebody else was faster
    effect_on_running: str = ""

    def is_offered(self, queue: Queue) -> bool:
        return (queue.paused_at is None) == (self.verb == "pause")


PAUSE = QueueAct(
    verb="pause",
    label=_("Pause"),
    effect=_(
        "Workers start none of its jobs any more, until the queue is resumed. Jobs can "
        "still be enqueued."
    ),
    effect_on_running=_("Running jobs go on until they end."),
    done=_("%(queue)s is paused."),
    in_vain=_("%(queue)s was paused already."),
)
RESUME = QueueAct(
    verb="resume",
    label=_("Resume"),
    effect=_("Workers start its jobs again."),
    done=_("%(queue)s is resumed."),
    in_vain=_("%(queue)s was not paused."),
)


def act_button(act: QueueAct):
    @button(
        label=act.label,
        path=act.verb,
        permission="pause",
        is_offered=act.is_offered,
    )
    def view(self, request, queue):
        return self.act_on_queue(request, act, queue)

    return view


class QueueAdmin(ConfirmationPages, ButtonsAdmin):
    """Queues. Workers make the row of a queue when they claim its first job."""

    list_display = ("short_name", "state", "jobs", "limit", "short_note")
    list_display_links = ("short_name",)
    ordering = ("name",)
    sortable_by = ()
    search_fields = ("name",)
    show_facets = admin.ShowFacets.NEVER
    actions = None
    fields = ("name", "state", "jobs", "max_running", "note")
    actions_row = actions_detail = ("pgjobs_queue_pause", "pgjobs_queue_resume")

    pgjobs_queue_pause = act_button(PAUSE)
    pgjobs_queue_resume = act_button(RESUME)

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    # Permissions

    def has_pause_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.pause_queue")

    def has_delete_permission(self, request, obj=None) -> bool:
        return False  # it would come back, without its limit

    # Pages

    def get_fields(self, request, obj=None):
        return self.fields if obj else ("name", "max_running", "note")

    def get_readonly_fields(self, request, obj=None):
        return ("name", "state", "jobs") if obj else ()

    def get_changelist_instance(self, request):
        changelist = super().get_changelist_instance(request)
        add_counts(list(changelist.result_list))
        return changelist

    def get_object(self, request, object_id, from_field=None):
        queue = super().get_object(request, object_id, from_field)
        if queue is not None:
            add_counts([queue])
        return queue

    def act_on_queue(self, request, act: QueueAct, queue: Queue):
        """Answer a button's request."""
        form = ActForm(request.POST if request.method == "POST" else None)
        url_back = self.url_back(request, queue)
        name = excerpt(queue.name, LONGEST_CELL)
        if form.is_valid():
            changed = getattr(queue, act.verb)()
            if changed:
                self.log_change(request, queue, act.done % {"queue": name})
            level = messages.SUCCESS if changed else messages.WARNING
            text = act.done if changed else act.in_vain
            self.message_user(request, text % {"queue": name}, level)
            return HttpResponseRedirect(url_back)
        context = {
            "subject": name,
            "status": state_of(queue),
            "running": queue.counts.running,
            "is_possible": act.is_offered(queue),
            "url_back": url_back,
        }
        return self.confirmation_page(request, act, form, context)

    # Columns

    @admin.display(description=_("name"))
    def short_name(self, queue: Queue) -> str:
        return excerpt(queue.name, LONGEST_CELL)

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> str:
        kind = "ready" if queue.paused_at is None else "waiting"
        word = format_html(
            '<span class="pgjobs-status pgjobs-{}">{}</span>', kind, state_of(queue)
        )
        if queue.paused_at is None:
            return word
        since = date_format(localtime(queue.paused_at), "SHORT_DATETIME_FORMAT")
        return format_html("{} {}", word, gettext("since %(time)s") % {"time": since})

    @admin.display(description=_("jobs"))
    def jobs(self, queue: Queue) -> str:
        """Show how many jobs there are of each status, as links to their lists."""
        links = links_by_status(
            self.admin_site, queue.counts, LIVE, queue_name=queue.name
        )
        return links or self.get_empty_value_display()

    @admin.display(description=_("most running jobs"), empty_value=_("no limit"))
    def limit(self, queue: Queue) -> int | None:
        return queue.max_running

    @admin.display(description=_("note"))
    def short_note(self, queue: Queue) -> str:
        return excerpt(queue.note, LONGEST_CELL)


def state_of(queue: Queue) -> str:
    return gettext("Active") if queue.paused_at is None else gettext("Paused")


def add_counts(queues: list[Queue]) -> None:
    """Let each queue know how many unfinished jobs it has: few queries for all."""
    jobs = Job.objects.filter(queue_name__in=[queue.name for queue in queues])
    now = database_time(Job.objects.db)
    found = {each.name: each for each in queue_statuses(jobs, now)}
    for queue in queues:
        queue.counts = found.get(queue.name) or QueueStatus(queue.name)
