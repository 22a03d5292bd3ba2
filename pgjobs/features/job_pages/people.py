"""What people did to a job, by pages, commands and SQL: from the audit trail."""

from collections.abc import Iterator
from typing import Any

from django.db.models import F, Q
from django.utils.translation import gettext as _

from ...admin.details import Lineage, Moment
from ...admin.jobs import JobAdmin
from ...base.moments import instant
from ...features import entries
from ...models.audit_entry import AuditEntry
from ...models.job import Job
from ...reports.texts import excerpt

LOOKED_AT = 5_000  # of the newest entries: only their time has an index
MOST = 50
LONGEST_NOTE = 300
RETRIES = ("retry", *(act.verb for act in entries("acts", "RETRIES")))


def acts_on(job: Job) -> list[AuditEntry]:
    """Return the latest acts on the job, and retries by filters, the newest first.

    Ids of a selection stand in `chosen`, before the filters of a command.
    """
    newest = AuditEntry.objects.filter(at__gte=job.enqueued_at).order_by("-at")
    some = newest.values("pk")[:LOOKED_AT]
    listed = rf"^([^-?]*[ ,])?{job.pk}([ ,]|$)"
    by_filter = Q(act__in=RETRIES, chosen__regex=r"^--|\?")
    of_many = Q(object_id=None) & (Q(chosen__regex=listed) | by_filter)
    return list(
        AuditEntry.objects.filter(Q(object_id=job.pk) | of_many, pk__in=some)
        .filter(model="job")
        .exclude(number=0)
        .annotate(is_of_this=Q(object_id=job.pk) | Q(chosen__regex=listed))
        .order_by("-at", F("pk").desc())[:MOST]
    )


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the timeline with the acts of people."""
    acts = list(known_to_be_of(job, acts_on(job)))
    if not acts:
        return {}
    may_see = request.user.has_perm("pgjobs.view_auditentry")
    moments = [Moment(entry.at, "person", said(entry, may_see), None) for entry in acts]
    own = [each for each in job.moments if not is_said(each, job, acts)]
    timeline = sorted([*own, *moments], key=lambda moment: instant(moment.at))
    return {"timeline": timeline}


def known_to_be_of(job: Job, acts: list[AuditEntry]) -> Iterator[AuditEntry]:
    """Yield the acts on this job; of retries by a filter, the last before a new life.

    A filter does not tell which jobs it meant. But if a job began a new life after it
    had ended, then by the retry that came in between.
    """
    begins = list(lives(job))
    for entry in acts:
        if entry.is_of_this:
            yield entry
    for end, begin in begins:
        between = [each for each in acts if end <= instant(each.at) <= begin]
        if between and not any(each.is_of_this for each in between):
            yield between[0]


def lives(job: Job) -> Iterator[tuple[Any, Any]]:
    """Yield when each life but the last ended, and the first attempt of the next."""
    ends: dict[int, Any] = {}
    begins: dict[int, Any] = {}
    for attempt in (moment.attempt for moment in job.moments if moment.attempt):
        if attempt.started_at is None:
            continue
        begun = instant(attempt.started_at)
        end = instant(attempt.finished_at or attempt.started_at)
        begins[attempt.life] = min(begun, begins.get(attempt.life, begun))
        ends[attempt.life] = max(end, ends.get(attempt.life, end))
    for life, begin in begins.items():
        if life - 1 in ends:
            yield ends[life - 1], begin


def is_said(moment: Moment, job: Job, acts: list[AuditEntry]) -> bool:
    """Whether an act tells of a request to cancel who made it."""
    is_request = moment.kind == "waiting" and moment.at == job.cancel_requested_at
    return is_request and any(entry.act == "cancel" for entry in acts)


def said(entry: AuditEntry, may_see_people: bool) -> str:
    names = labels()
    act = names.get(entry.act, entry.act)
    if not may_see_people:
        return _("%(act)s by a person") % {"act": act}
    text = _("%(act)s by %(user)s")
    values = {"act": act, "user": excerpt(entry.actor, LONGEST_NOTE)}
    note = excerpt(entry.note, LONGEST_NOTE)
    return f"{text % values}: {note}" if note else text % values


def labels() -> dict[str, Any]:
    """Return the names of acts by their verbs."""
    acts = (*JobAdmin.acts, *JobAdmin.bulk_acts)
    return {**{act.verb: act.label for act in acts}, "run": _("Run now")}


def history_context(request, job: Job) -> dict[str, Any]:
    """Return what the page *History* shows besides Django's own entries."""
    may_see = request.user.has_perm("pgjobs.view_auditentry")
    acts = [each for each in acts_on(job) if each.is_of_this] if may_see else []
    return {"acts": [(entry, said(entry, may_see)) for entry in acts]}
