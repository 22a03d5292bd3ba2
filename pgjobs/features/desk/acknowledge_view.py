"""The page on which somebody says that a problem is known."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from ...admin.acts import Act
from ...admin.auditing import audited
from ...admin.forms import ActForm, line_of_text
from ...base.queue_database import database_time
from ...models.job import Job
from ...queue.acts import Changed
from ...reports.status import seen_in
from ...reports.texts import excerpt
from .acknowledging import acknowledge, take_back
from .limits import alerts
from .remarks import alone

PERMISSIONS = ("pgjobs.view_job", "pgjobs.acknowledge_remark")
LONGEST_SUBJECT = 500
LONGEST_TITLE = 200
TIMES = (
    (1, _("for 1 hour")),
    (4, _("for 4 hours")),
    (24, _("for a day")),
    (168, _("for a week")),
    (0, _("no longer: it counts again")),
)


class AcknowledgeForm(ActForm):
    hours = forms.TypedChoiceField(
        label=_("Acknowledged"), coerce=int, choices=TIMES, initial=4
    )
    note = line_of_text(_("Note"), _("Why. Shown with the problem."))


ACKNOWLEDGE = Act(
    verb="acknowledge",
    permission="acknowledge",
    run=lambda rows: Changed(1, 0),
    is_offered=lambda row: True,
    form=AcknowledgeForm,
    label=_("Acknowledge"),
    effect=_(
        "The problem is still shown, but it does not count until the time is over: "
        "neither for jobstatus --check nor in the metrics."
    ),
    done=_("Acknowledged: %(name)s."),
)


@require_http_methods(["GET", "HEAD", "POST"])
def acknowledge_view(request, admin):
    """Acknowledge a problem, or take that back; a GET shows what would happen."""
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    kind = request.GET.get("kind", "")
    subject = request.GET.get("subject", "")
    if kind not in alerts() or len(subject) > LONGEST_SUBJECT or "\0" in subject:
        raise Http404
    name = excerpt(f"{kind} {subject}".strip(), LONGEST_TITLE)
    form = AcknowledgeForm(request.POST if request.method == "POST" else None)
    url_back = reverse("admin:pgjobs_overview", current_app=admin.admin_site.name)
    if form.is_valid():
        carry_out(request, kind, subject, form.cleaned_data)
        done = ACKNOWLEDGE.done if form.cleaned_data["hours"] else COUNTS_AGAIN
        admin.message_user(request, done % {"name": name}, messages.SUCCESS)
        return HttpResponseRedirect(url_back)
    context = {
        "subject": sentence(kind, subject) or without_sentence(kind, name),
        "is_possible": True,
        "url_back": url_back,
    }
    return admin.confirmation_page(request, ACKNOWLEDGE, form, context)


COUNTS_AGAIN = _("No longer acknowledged: %(name)s.")


def sentence(kind: str, subject: str) -> str | None:
    """Return what the problem says now, or None if it is over."""
    remarks = alone(alerts()[kind], seen_in(Job.objects.db))
    texts = (each.text for each in remarks if each.subject == subject)
    return excerpt(text, LONGEST_TITLE) if (text := next(texts, None)) else None


def without_sentence(kind: str, name: str) -> str:
    text = gettext("%(name)s: %(about)s")
    return text % {"name": name, "about": alerts()[kind].about}


def carry_out(request, kind: str, subject: str, words: dict[str, Any]) -> None:
    database, chosen = Job.objects.db, f"{kind} {subject}".strip()
    with audited(
        request, "acknowledge", "acknowledgement", chosen=chosen, note=words["note"]
    ) as entry:
        entry.number = 1
        if not words["hours"]:
            entry.number = take_back(database, kind, subject)
            return
        until = database_time(database) + timedelta(hours=words["hours"])
        person = request.user.get_username()
        acknowledge(database, kind, subject, person, until, words["note"])
