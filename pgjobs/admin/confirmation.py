"""The page between a button or a bulk action and its effect.

A GET shows what would happen; only a POST of the page's form makes it happen.
"""

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.admin.views.main import PAGE_VAR
from django.contrib.contenttypes.models import ContentType
from django.db.models import Count
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from ..models import Job, Status
from ..queue.acts import Changed
from .acts import Act
from .listing import count_up_to
from .texts import excerpt

TEMPLATE = "admin/pgjobs/job/confirmation.html"
# A request must end before its server loses patience; the operator repeats the act.
MOST_AT_ONCE = 100_000
LONGEST_NAME = 250

SKIPPED = ngettext_lazy(
    "%(count)d job was skipped: its status did not allow it.",
    "%(count)d jobs were skipped: their status did not allow it.",
    "count",
)
SKIPPED_OR_TAKEN = ngettext_lazy(
    "%(count)d job was skipped: its status did not allow it, or another job holds its "
    "unique key.",
    "%(count)d jobs were skipped: their status did not allow it, or other jobs hold "
    "their unique keys.",
    "count",
)
LIMITED = _("No more than %(count)d are handled at once: repeat it for the others.")


class ConfirmationPages:
    """Shows what would happen."""

    def confirmation_page(self, request, act, form, context: dict):
        return TemplateResponse(
            request,
            TEMPLATE,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "media": self.media,
                "has_view_permission": True,
                "title": act.label,
                "act": act,
                "form": form,
                "original": context["subject"],  # the last of the breadcrumbs
                **context,
            },
        )


class ConfirmingAdmin(ConfirmationPages):
    """Carries out acts, each after its confirmation page, and logs them."""

    def act_on_job(self, request, act: Act, job):
        """Answer a button's request."""
        form = act.form(request.POST if request.method == "POST" else None)
        if form.is_valid():
            this = self.get_queryset(request).filter(pk=job.pk)
            changed = act.run(this, **form.cleaned_data).changed == 1
            self.report_on_job(request, act, job, form, changed)
            gone = changed and act.verb == "delete"
            return HttpResponseRedirect(self.url_back(request, None if gone else job))
        context = {
            "subject": excerpt(str(job), LONGEST_NAME),
            "statuses": [],
            "is_possible": act.is_offered(job),
            "status": job.get_status_display(),
            "running": job.status == Status.RUNNING,
            "url_back": self.url_back(request, job),
        }
        return self.confirmation_page(request, act, form, context)

    def act_on_selection(self, request, act: Act, queryset):
        """Answer a bulk action's request; None leads back to the list."""
        is_confirmed = "confirmed" in request.POST
        form = act.form(request.POST if is_confirmed else None)
        if form.is_valid():
            limited = count_up_to(MOST_AT_ONCE + 1, queryset) > MOST_AT_ONCE
            if limited:
                possible = queryset.filter(status__in=act.statuses)
                queryset = possible.order_by("pk")[:MOST_AT_ONCE]
            outcome = act.run(queryset, **form.cleaned_data)
            self.report_on_selection(request, act, form, outcome, limited)
            return None
        context = self.context_of_selection(request, act, queryset)
        return self.confirmation_page(request, act, form, context)

    def context_of_selection(self, request, act: Act, queryset) -> dict:
        counts = queryset.order_by().values_list("status").annotate(number=Count("pk"))
        by_status = dict(counts)
        total = sum(by_status.values())
        across = is_across(request)
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        query = request.GET.copy()
        query.pop(PAGE_VAR, None)  # the page may be gone by then
        return {
            "subject": jobs(total),
            "statuses": [
                (status, by_status[status], status in act.statuses)
                for status in Status
                if status in by_status
            ],
            "is_possible": any(status in act.statuses for status in by_status),
            "running": by_status.get(Status.RUNNING, 0),
            "is_across": across,
            "most_at_once": MOST_AT_ONCE if total > MOST_AT_ONCE else None,
            "action": request.POST.get("action"),
            "checkbox_name": ACTION_CHECKBOX_NAME,
            # Django wants to see one at least.
            "selected": selected[:1] if across else selected,
            "form_url": f"{request.path}?{query.urlencode()}",
            "url_back": request.get_full_path(),
        }

    def report_on_job(self, request, act: Act, job, form, changed: bool) -> None:
        name = excerpt(str(job), LONGEST_NAME)
        if changed:
            text = act.done % {"count": 1}
            self.log_act(request, act, job, with_reason(text, form))
            self.message_user(request, f"{name}: {text}", messages.SUCCESS)
            return
        self.message_user(request, self.why_not(request, act, job), messages.WARNING)

    def why_not(self, request, act: Act, job) -> str:
        """Return why an act has not changed a job."""
        names = {"job": excerpt(str(job), LONGEST_NAME)}
        this = self.get_queryset(request).filter(pk=job.pk).first()
        if this and this.status in act.statuses and this.unique_key:
            text = gettext("%(job)s was not changed: job %(id)s holds its unique key.")
            return text % {**names, "id": holder_of_key(this)}
        status = this.get_status_display() if this else gettext("gone")
        text = gettext("%(job)s was not changed: its status is %(status)s.")
        return text % {**names, "status": status}

    def log_act(self, request, act: Act, job, text: str) -> None:
        if act.flag == DELETION:
            self.log_deletions(request, [job])
        else:
            self.log_change(request, job, text)

    def report_on_selection(
        self, request, act: Act, form, outcome: Changed, limited: bool
    ) -> None:
        sentences = [act.done % {"count": outcome.changed}]
        if outcome.skipped:
            skipped = SKIPPED_OR_TAKEN if act.takes_up_keys else SKIPPED
            sentences.append(skipped % {"count": outcome.skipped})
        if limited:
            sentences.append(LIMITED % {"count": MOST_AT_ONCE})
        text = " ".join(sentences)
        if outcome.changed:
            self.log_bulk_act(request, act, with_reason(text, form), outcome.changed)
        complete = outcome.changed and not outcome.skipped and not limited
        level = messages.SUCCESS if complete else messages.WARNING
        self.message_user(request, text, level)

    def log_bulk_act(self, request, act: Act, text: str, changed: int) -> None:
        """Make one entry for all: the jobs may be very many."""
        LogEntry.objects.create(
            user_id=request.user.pk,
            content_type=ContentType.objects.get_for_model(self.model),
            object_id=None,
            object_repr=jobs(changed),
            action_flag=act.flag,
            change_message=f"{text} {selection(request)}",
        )


def holder_of_key(job) -> int | None:
    """Return the job in the way of this one's retry, unless it has just gone."""
    holders = Job.objects.holding_keys().filter(
        unique_key=job.unique_key, unique_for=job.unique_for
    )
    return holders.values_list("pk", flat=True).first()


def jobs(count: int) -> str:
    return ngettext("%(count)d job", "%(count)d jobs", count) % {"count": count}


def with_reason(text: str, form) -> str:
    """Return the text with the reason that the operator gave.

    A result is not logged: not everybody who reads the log may see it.
    """
    reason = form.cleaned_data.get("reason")
    return f"{text} {form.fields['reason'].label}: {reason}" if reason else text


def selection(request) -> str:
    """Return which jobs were selected, for the log."""
    if is_across(request):
        query = request.GET.urlencode()
        return gettext("Selected: all that match ?%(query)s") % {"query": query}
    ids = ", ".join(request.POST.getlist(ACTION_CHECKBOX_NAME))
    return gettext("Selected: %(ids)s") % {"ids": ids}


def is_across(request) -> bool:
    return request.POST.get("select_across") == "1"
