"""Answer at once with 202, and say where to see how the job goes."""

from django.http import JsonResponse
from django.shortcuts import render


def accepted(request, job, result_url):
    """Answer 202 with the job's address: as JSON for scripts, as a page for people."""
    urls = {"status_url": job.get_status_url(), "result_url": result_url}
    if prefers_json(request):
        return JsonResponse({"job": job.pk, **urls}, status=202)
    return render(request, "example/job.html", {"job": job, **urls}, status=202)


def prefers_json(request):
    """Tell whether the client asked for JSON rather than for a page."""
    types = ["text/html", "application/json"]
    return request.get_preferred_type(types) == "application/json"
