"""The admin of batches: how far they are, and to cancel or retry their jobs."""

from django.contrib import admin, messages
from django.http import HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import FINISHED
from ..models import Batch, Status
from ..models.batch import BatchProgress, progress_of
from . import acts
from .buttons import ButtonsAdmin, button
from .confirmation import LONGEST_NAME, MOST_AT_ONCE, ConfirmationPages, with_reason
from .ids import read_id
from .links import batch_links
from .listing import CappedPaginator, links_by_status
from .readonly import ReadOnlyAdmin
from .texts import excerpt

LONGEST_CELL = 80


def act_button(act: acts.Act, affected, is_offered):
    """Make a button that does to jobs of a batch what `act` does to any job."""

    @button(
        label=act.label,
        path=act.verb,
        permission=act.permission,
        is_offered=is_offered,
    )
    def view(self, request, batch):
        return self.act_on_batch(request, act, batch, affected(batch.jobs.all()))

    return view


class BatchAdmin(ConfirmationPages, ReadOnlyAdmin, ButtonsAdmin):
    """Batches. They are made by groups, and go with the last of their jobs."""

    list_display = ("id", "short_description", "enqueued_at", "state", "jobs")
    list_display_links = ("id", "short_description")
    list_per_page = 50
    ordering = ("-id",)
    sortable_by = ()
    paginator = CappedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    search_fields = ("id", "description")
    search_help_text = _("An id, or the beginning of a description")
    actions = None
    fields = ("full_description", "enqueued_at", "state", "jobs")
    actions_row = actions_detail = ("pgjobs_batch_cancel", "pgjobs_batch_retry")

    pgjobs_batch_cancel = act_button(
        acts.CANCEL,
        lambda jobs: jobs.exclude(status__in=FINISHED),
        lambda batch: not batch.counts.is_finished,
    )
    pgjobs_batch_retry = act_button(
        acts.RETRY, lambda jobs: jobs.failed(), lambda batch: batch.counts.failed > 0
    )

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    # Permissions

    def has_retry_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.retry_job")

    def has_cancel_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.cancel_job")

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        return False  # there are no filters

    # Pages

    def get_changelist_instance(self, request):
        changelist = super().get_changelist_instance(request)
        add_counts(list(changelist.result_list))
        return changelist

    def get_object(self, request, object_id, from_field=None):
        batch = super().get_object(request, object_id, from_field)
        if batch is not None:
            add_counts([batch])
        return batch

    def get_search_results(self, request, queryset, search_term):
        term = search_term.strip()
        if not term:
            return queryset, False
        id = read_id(term.removeprefix("#"))
        if id is not None:
            return queryset.filter(pk=id), False
        return queryset.filter(description__startswith=term), False

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        context["successors"] = batch_links(obj, self.admin_site)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def act_on_batch(self, request, act: acts.Act, batch: Batch, jobs):
        """Answer a button's request."""
        form = act.form(request.POST if request.method == "POST" else None)
        name = excerpt(str(batch), LONGEST_NAME)
        url_back = self.url_back(request, batch)
        if form.is_valid():
            outcome = act.run(jobs.order_by("pk")[:MOST_AT_ONCE], **form.cleaned_data)
            text = str(act.done % {"count": outcome.changed})
            if outcome.changed:
                self.log_change(request, batch, with_reason(text, form))
            level = messages.SUCCESS if outcome.changed else messages.WARNING
            self.message_user(request, f"{name}: {text}", level)
            return HttpResponseRedirect(url_back)
        counts = batch.counts
        context = {
            "subject": gettext("Batch %(name)s") % {"name": name},
            "statuses": [
                (status, number, status in affected_by(act))
                for status in Status
                if (number := getattr(counts, status.lower()))
            ],
            "running": counts.running,
            "is_possible": any(
                getattr(counts, status.lower()) for status in affected_by(act)
            ),
            "most_at_once": MOST_AT_ONCE if counts.total > MOST_AT_ONCE else None,
            "url_back": url_back,
        }
        return self.confirmation_page(request, act, form, context)

    # Columns

    @admin.display(description=_("description"))
    def short_description(self, batch: Batch) -> str:
        return excerpt(batch.description, LONGEST_CELL)

    @admin.display(description=_("description"))
    def full_description(self, batch: Batch) -> str:
        return batch.description

    @admin.display(description=_("state"))
    def state(self, batch: Batch) -> str:
        counts = batch.counts
        if not counts.is_finished:
            kind, word = "running", gettext("Unfinished")
        elif counts.failed or counts.cancelled:
            kind, word = "failed", gettext("Ended, not all succeeded")
        else:
            kind, word = "successful", gettext("Successful")
        return format_html(
            '<span class="pgjobs-status pgjobs-{}">{}</span> {}',
            kind,
            word,
            gettext("%(finished)s of %(total)s")
            % {"finished": counts.finished, "total": counts.total},
        )

    @admin.display(description=_("jobs"))
    def jobs(self, batch: Batch) -> str:
        """Show how many jobs there are of each status, as links to their lists."""
        links = links_by_status(self.admin_site, batch.counts, Status, batch=batch.pk)
        return links or self.get_empty_value_display()


def affected_by(act: acts.Act) -> tuple[Status, ...]:
    return (Status.FAILED,) if act is acts.RETRY else act.statuses


def add_counts(batches: list[Batch]) -> None:
    """Let each batch know how far it is: one query for all."""
    found = progress_of(Batch.objects.filter(pk__in=[each.pk for each in batches]))
    for batch in batches:
        batch.counts = found.get(batch.pk, BatchProgress())
