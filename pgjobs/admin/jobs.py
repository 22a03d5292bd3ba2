"""The admin of jobs: to look, and to act on them; nobody edits them by hand."""

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest
from django.db.models import BooleanField, Case, ExpressionWrapper, Q, When
from django.db.models.functions import Left
from django.utils.translation import gettext_lazy as _

from ..fields import HoldsKey
from ..models import Job, Status
from . import acts
from .buttons import ButtonsAdmin, button
from .columns import LONGEST_REASON, JobColumns
from .confirmation import ConfirmingAdmin
from .details import details
from .filters import FILTERS
from .ids import read_id
from .links import job_links
from .listing import CappedPaginator, JobChangeList
from .readonly import ReadOnlyAdmin
from .waiting import attach_obstacles

LONGEST_TASK = Job._meta.get_field("task").max_length
LARGE_COLUMNS = ("args", "kwargs", "return_value", "reason", "keys", "dependencies")
# The page repeats the query in dozens of links.
LONGEST_QUERY = 8_000


def act_button(act: acts.Act):
    @button(
        label=act.label,
        path=act.verb,
        permission=act.permission,
        is_offered=act.is_offered,
    )
    def view(self, request, job):
        return self.act_on_job(request, act, job)

    return view


def bulk_action(act: acts.Act):
    def action(model_admin, request, queryset):
        return model_admin.act_on_selection(request, act, queryset)

    # Named as Django's own, the bulk deletion takes its place.
    action.__name__ = f"{act.verb}_selected"
    action.short_description = act.bulk_label
    action.allowed_permissions = (act.permission,)
    if hasattr(admin, "ActionLocation"):  # Django 6.1: the detail page has its buttons
        action.locations = [admin.ActionLocation.CHANGE_LIST]
    return action


class JobAdmin(JobColumns, ConfirmingAdmin, ReadOnlyAdmin, ButtonsAdmin):
    """Jobs. Their columns, buttons and confirmations stand in modules of their own."""

    list_display = ("id", "task_name", "status_and_reason", "queue", "latest")
    list_display_links = ("id", "task_name")
    list_filter = FILTERS
    list_per_page = 50
    ordering = ("-id",)
    paginator = CappedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    # What is searched is up to get_search_results.
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
    actions = [bulk_action(act) for act in acts.BULK_ACTIONS]
    actions_row = actions_detail = (
        "pgjobs_job_retry",
        "pgjobs_job_run_now",
        "pgjobs_job_cancel",
        "pgjobs_job_fail",
        "pgjobs_job_succeed",
    )

    pgjobs_job_retry = act_button(acts.RETRY)
    pgjobs_job_run_now = act_button(acts.RUN_NOW)
    pgjobs_job_cancel = act_button(acts.CANCEL)
    pgjobs_job_fail = act_button(acts.FAIL)
    pgjobs_job_succeed = act_button(acts.SUCCEED)

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    # Permissions

    def has_retry_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.retry_job")

    def has_cancel_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.cancel_job")

    def has_fail_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.fail_job")

    def has_run_now_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.run_job_now")

    def has_delete_permission(self, request, obj=None) -> bool:
        is_running = obj is not None and obj.status == Status.RUNNING
        return request.user.has_perm("pgjobs.delete_job") and not is_running

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        # Any other, such as kwargs__password__startswith, would let people guess what
        # they may not see, and read the whole table for it.
        return lookup in {each.parameter_name for each in FILTERS}

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
                is_tied=ExpressionWrapper(Q(keys__isnull=False), BooleanField()),
                holds_key=Case(When(unique_key__isnull=False, then=HoldsKey())),
            )
            .select_related("worker")
        )

    def get_object(self, request, object_id, from_field=None):
        job = super().get_object(request, object_id, from_field)
        if job is not None:
            attach_obstacles([job])
        return job

    def get_changelist(self, request, **kwargs):
        return JobChangeList

    def get_search_results(self, request, queryset, search_term):
        term = search_term.strip()
        if not term:
            return queryset, False
        id = read_id(term.removeprefix("#"))
        if id is not None:
            return queryset.filter(pk=id), False
        if len(term) > LONGEST_TASK:
            return queryset.none(), False
        return queryset.filter(task__startswith=term), False

    def changelist_view(self, request, extra_context=None):
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if any(read_id(each) is None for each in selected):
            raise BadRequest("What is selected must be ids of jobs.")
        if len(request.META.get("QUERY_STRING", "")) > LONGEST_QUERY:
            raise BadRequest("The query is too long.")
        return super().changelist_view(request, extra_context)

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        may_see = request.user.has_perm("pgjobs.view_job_arguments")
        context.update(details(obj, may_see))
        if obj.is_tied:
            context.update(job_links(obj, self.admin_site))
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def delete_view(self, request, object_id, extra_context=None):
        # In place of Django's, which does not look at the status when it deletes.
        job = self.object_behind_button(request, acts.DELETE, unquote(object_id))
        return self.act_on_job(request, acts.DELETE, job)
