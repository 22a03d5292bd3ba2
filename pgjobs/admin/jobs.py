"""The admin of jobs: lists, pages and acts. It does not edit them."""

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest
from django.db.models import BooleanField, Case, Count, ExpressionWrapper, Q, When
from django.db.models.functions import Left
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import HoldsKey
from ..models import Job, Status
from .acting import (
    ActingAdmin,
    counted,
    effects_by_status,
    name_of,
    permitted,
)
from .acts import BULK_ACTIONS, BUTTONS, DELETE
from .columns import LONGEST_REASON, JobColumns
from .details import details
from .filters import FILTERS
from .links import job_links
from .listing import ReadOnlyAdmin, by_id_or_beginning
from .waiting import attach_obstacles

LARGE_COLUMNS = ("args", "kwargs", "return_value", "reason", "keys", "dependencies")
# The page repeats the query in dozens of links.
LONGEST_QUERY = 8_000


@admin.register(Job)
class JobAdmin(JobColumns, ReadOnlyAdmin, ActingAdmin):
    """Jobs. Their columns, buttons and confirmations stand in modules of their own."""

    list_display = ("id", "task_name", "status_and_reason", "queue", "latest")
    list_display_links = ("id", "task_name")
    list_filter = FILTERS
    ordering = ("-id",)
    sortable_by = ("id",)
    # What is searched is up to `find`.
    search_fields = ("id", "task")
    search_help_text = _("An id, or the beginning of a task's name")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "task_and_state",
                    ("status_word", "queue", "priority", "worker_link"),
                    "full_reason",
                    "batch_link",
                    ("full_unique_key", "unique_for", "unique_until", "holds_key"),
                )
            },
        ),
        (
            _("Times"),
            {
                "fields": (
                    ("enqueued_at", "run_after", "expires_at", "cancel_requested_at"),
                    ("started_at", "last_attempted_at", "finished_at"),
                )
            },
        ),
        (
            _("Counters"),
            {
                "fields": (
                    ("attempts", "failures", "max_attempts"),
                    ("crashes", "max_crashes", "life", "lease_token"),
                    ("timeout", "process_units"),
                )
            },
        ),
    )
    acts = BUTTONS
    bulk_acts = BULK_ACTIONS

    # Permissions

    has_retry_permission = permitted("retry_job")
    has_cancel_permission = permitted("cancel_job")
    has_fail_permission = permitted("fail_job")
    has_run_now_permission = permitted("run_job_now")

    def has_delete_permission(self, request, obj=None) -> bool:
        is_running = obj is not None and obj.status == Status.RUNNING
        return request.user.has_perm("pgjobs.delete_job") and not is_running

    # Pages

    def get_queryset(self, request):
        # The deferred columns can be large, and the JSON of a row that SQL inserted
        # such that Python cannot read it. Workers may be gone: no constraint.
        return (
            super()
            .get_queryset(request)
            .defer(*LARGE_COLUMNS)
            .annotate(
                reason_start=Left("reason", LONGEST_REASON + 1),
                has_keys=ExpressionWrapper(Q(keys__isnull=False), BooleanField()),
                holds_key=Case(When(unique_key__isnull=False, then=HoldsKey())),
            )
            .select_related("worker")
        )

    def look_up(self, rows):
        attach_obstacles(rows)

    def find(self, rows, term):
        return by_id_or_beginning(rows, term, "task")

    def changelist_view(self, request, extra_context=None):
        if len(request.META.get("QUERY_STRING", "")) > LONGEST_QUERY:
            raise BadRequest("The query is too long.")
        return super().changelist_view(request, extra_context)

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        context.update(details(obj, may_see))
        if obj.has_keys:
            context.update(job_links(obj, self.admin_site))
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def delete_view(self, request, object_id, extra_context=None):
        # Django's own view would delete a running job.
        job = self.object_behind_button(request, DELETE, unquote(object_id))
        return self.act_on_one(request, DELETE, job)

    # Acts

    def preview(self, act, row):
        shown = {"status": row.get_status_display()}
        running = row.status == Status.RUNNING
        return super().preview(act, row) | shown | {"running": running}

    def preview_of_many(self, act, rows):
        counts = rows.order_by().values_list("status").annotate(number=Count("pk"))
        numbers = dict(counts)
        subject = counted(Job, sum(numbers.values()))
        shown = effects_by_status(act, numbers, self.most_at_once)
        return {"subject": subject, **shown}

    def part_of(self, act, rows):
        return super().part_of(act, rows.filter(status__in=act.statuses))

    def why_not(self, act, row, changed) -> str:
        names = {"job": name_of(row)}
        this = Job.objects.filter(pk=row.pk).first()
        if this and this.status in act.statuses and this.unique_key:
            text = gettext("%(job)s was not changed: job %(id)s holds its unique key.")
            return text % {**names, "id": holder_of_key(this)}
        status = this.get_status_display() if this else gettext("gone")
        text = gettext("%(job)s was not changed: its status is %(status)s.")
        return text % {**names, "status": status}


def holder_of_key(job) -> int | None:
    """Return the job in the way of this one's retry, unless it has just gone."""
    holders = Job.objects.holding_keys().filter(
        unique_key=job.unique_key, unique_for=job.unique_for
    )
    return holders.values_list("pk", flat=True).first()
