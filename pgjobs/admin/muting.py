"""Muting: groups of errors that the overview hides until a new version has them."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from ..models import ErrorGroup
from ..queue.acts import Changed
from ..reports.texts import excerpt
from .acts import Act
from .auditing import noting

LONGEST_TITLE = 200
PERMISSIONS = ("pgjobs.view_job", "pgjobs.mute_errorgroup")


def mute(groups) -> Changed:
    return Changed(groups.update(muted_version=F("version")), 0)


def unmute(groups) -> Changed:
    return Changed(groups.update(muted_version=None), 0)


MUTE = Act(
    verb="mute",
    permission="mute",
    run=mute,
    is_offered=lambda group: not group.is_muted,
    label=_("Mute"),
    effect=_(
        "The overview no longer lists these errors, until they appear in a new version "
        "of the code. Jobs go on failing as before."
    ),
    done=_("%(name)s is muted."),
)
UNMUTE = Act(
    verb="unmute",
    permission="mute",
    run=unmute,
    is_offered=lambda group: group.is_muted,
    label=_("Unmute"),
    effect=_("The overview lists these errors again."),
    done=_("%(name)s is no longer muted."),
)


@require_http_methods(["GET", "HEAD", "POST"])
def mute_view(request, admin, pk: int):
    """Mute a group of errors, or unmute it; a GET shows what would happen."""
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    group = get_object_or_404(ErrorGroup, pk=pk)
    act = UNMUTE if group.is_muted else MUTE
    url_back = reverse("admin:pgjobs_overview", current_app=admin.admin_site.name)
    if request.method == "POST":
        carry_out(request, admin, act, group)
        return HttpResponseRedirect(url_back)
    subject = excerpt(str(group), LONGEST_TITLE)
    context = {"subject": subject, "is_possible": True, "url_back": url_back}
    return admin.confirmation_page(request, act, act.form(), context)


def carry_out(request, admin, act: Act, group: ErrorGroup) -> None:
    name = str(group)
    with noting(request, act.verb, "errorgroup", group.pk, chosen=name) as entry:
        entry.number = act.run(ErrorGroup.objects.filter(pk=group.pk)).changed
    text = act.done % {"name": excerpt(name, LONGEST_TITLE)}
    admin.message_user(request, text, messages.SUCCESS)
