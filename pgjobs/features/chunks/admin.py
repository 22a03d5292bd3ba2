"""On the page of a job: the others of the call that it was in last."""

from typing import Any

from django.utils.translation import gettext as _

from ...admin.details import Lineage
from ...admin.links import jobs_of, link_to_job
from ...models.job import Job

MOST_COMPANIONS = 50
NEAR = 1_000  # ids around its own in which others of a call stand


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the context for the template: `links.html`."""
    ids = ids_of_call(job)
    shown = ids[:MOST_COMPANIONS]
    jobs = jobs_of(shown)
    return {
        "companions": [
            link_to_job(id, jobs, note_of(id, n, job), admin_site)
            for n, id in enumerate(shown)
        ]
        if len(ids) > 1
        else [],
        "hidden_companions": len(ids) > MOST_COMPANIONS,
        "most_companions": MOST_COMPANIONS,
    }


def note_of(id: int, place: int, shown: Job) -> str:
    if place == 0:
        return _("has the log of the call")
    return _("this job") if id == shown.pk else ""


def ids_of_call(job: Job) -> list[int]:
    """Return the ids of the jobs of its latest call, the first one first.

    The row of the first job has them all, until it is in another call. Then those of
    its neighbours count whose rows name the same call.
    """
    chunk = job.chunk
    if not isinstance(chunk, dict) or type(chunk.get("call")) is not int:
        return []
    first = chunk.get("first")
    if type(first) is not int:
        return []
    own = Job.objects.filter(pk=first).values_list("chunk", flat=True).first()
    if isinstance(own, dict) and own.get("call") == chunk["call"]:
        ids = own.get("ids")
        if isinstance(ids, list):
            return [id for id in ids if type(id) is int]
    near = Job.objects.filter(pk__range=(job.pk - NEAR, job.pk + NEAR))
    found = near.filter(chunk__call=chunk["call"]).order_by("pk")
    return list(found.values_list("pk", flat=True)[: MOST_COMPANIONS + 1])


JOB_CONTEXTS = (job_context,)
