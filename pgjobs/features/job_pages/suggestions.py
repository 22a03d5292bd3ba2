"""What the search box of jobs completes: names that the server knows, as JSON."""

from collections.abc import Iterator

from django.core.exceptions import PermissionDenied
from django.http import JsonResponse

from ...admin.filters import QueueFilter
from ...admin.links import list_url
from ...admin.searching import known_tasks, may_see_arguments
from ...models.job import Job
from ...models.job_choices import Status
from ...reports.json_text import is_secret
from ...reports.texts import excerpt
from ...tasks.registry import registry
from ..desk.errors import latest_errors

MOST = 500  # of each kind
LONGEST = 200
FRESH = "private, max-age=60"


def suggestions_view(request, admin) -> JsonResponse:
    """Answer with what may be typed; an address is of the list that it means."""
    if not admin.has_view_permission(request):
        raise PermissionDenied
    found = [{"text": name} for name in sorted(known_tasks())[:MOST]]
    queues = QueueFilter(request, {}, Job, admin).lookup_choices
    found += [listed(admin, f"queue:{name}", queue_name=name) for name, _ in queues]
    for name in sorted(filter(None, latest_errors(Job.objects.db)))[:MOST]:
        narrowed = {"status": Status.FAILED, "error": name}
        found.append(listed(admin, f"error:{name}", **narrowed))
    if may_see_arguments(request):
        found += [{"text": f"{name}:"} for name in sorted({*argument_names()})[:MOST]]
    return JsonResponse({"suggestions": found}, headers={"Cache-Control": FRESH})


def listed(admin, text: str, **filters) -> dict[str, str]:
    address = list_url("job", admin.admin_site, **filters)
    return {"text": excerpt(text, LONGEST), "address": address}


def argument_names() -> Iterator[str]:
    """Yield the arguments of the tasks here that may be searched."""
    for task in registry.tasks.values():
        for name in task.signature.parameters:
            if not is_secret(name, task.options.sensitive):
                yield name
