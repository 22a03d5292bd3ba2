"""Answer at once with 202, and tell later how the job goes."""

from django.core import signing
from django.http import Http404, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from pgjobs.models import Job

SALT = "example.jobs"


def accepted(request, job, result_url):
    """Answer 202 with the status URL: as JSON for scripts, as a page for people."""
    urls = {"status_url": get_status_url(job), "result_url": result_url}
    if prefers_json(request):
        return JsonResponse({"job": job.pk, **urls}, status=202)
    return render(request, "example/job.html", {"job": job, **urls}, status=202)


def get_status_url(job):
    """Return a URL that nobody can guess from another job's."""
    return reverse("job_status", args=[signing.dumps(job.pk, salt=SALT)])


def prefers_json(request):
    """Tell whether the client asked for JSON rather than for a page."""
    types = ["text/html", "application/json"]
    return request.get_preferred_type(types) == "application/json"


@require_safe
@never_cache
def job_status(request, token):
    """Describe a job as JSON: what a page needs to show its progress."""
    job = get_object_or_404(Job.objects.select_related("progress"), pk=_unsign(token))
    return JsonResponse(
        {
            "id": job.pk,
            "status": job.status,
            "finished": job.finished_at is not None,
            "progress": _describe_progress(job),
            "reason": job.reason,
            "return_value": job.return_value,
        }
    )


def _unsign(token):
    try:
        return signing.loads(token, salt=SALT)
    except signing.BadSignature:
        raise Http404("No such job.") from None


def _describe_progress(job):
    progress = getattr(job, "progress", None)
    if progress is None:
        return None
    return {
        "done": progress.done,
        "total": progress.total,
        "message": progress.message,
    }
