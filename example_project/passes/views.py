"""Show satellites and passes, and start a recomputation on a button."""

from django.db.models import Count, Max
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from pgjobs import enqueue
from pgjobs.models import Job

from example.jobs import accepted

from .models import GroundStation, Satellite
from .prediction import MIN_ELEVATION, WINDOW_HOURS
from .tasks import recompute_passes, retire_satellite

WINDOW = {"hours": WINDOW_HOURS, "min_elevation": MIN_ELEVATION}


@require_safe
def satellite_list(request):
    """List the satellites with the number and the height of their passes."""
    satellites = Satellite.objects.annotate(
        pass_count=Count("passes"), max_elevation=Max("passes__max_elevation")
    ).order_by("catalog_number")
    stations = GroundStation.objects.annotate(notice_count=Count("notices"))
    context = {"satellites": satellites, "stations": stations}
    return render(request, "passes/satellite_list.html", context | WINDOW)


@require_safe
def satellite_detail(request, number):
    """Show a satellite's elements and passes."""
    satellite = get_object_or_404(Satellite, catalog_number=number)
    passes = satellite.passes.select_related("station")
    asking = Job.objects.filter(
        task=retire_satellite.name, status="WAITING", kwargs__satellite_id=satellite.pk
    )
    context = {
        "satellite": satellite,
        "passes": passes,
        "is_asked": asking.exists(),
    }
    return render(request, "passes/satellite_detail.html", context | WINDOW)


@require_POST
def recompute(request, number):
    """Enqueue the recomputation and answer at once: 202, here you see how it goes."""
    satellite = get_object_or_404(Satellite, catalog_number=number)
    job = enqueue(recompute_passes, satellite.pk)
    return accepted(request, job, reverse("passes:satellite_detail", args=[number]))


@require_POST
def retire(request, number):
    """Let a job ask whether the satellite shall go, or answer the one that asks."""
    satellite = get_object_or_404(Satellite, catalog_number=number)
    job = enqueue(retire_satellite, satellite_id=satellite.pk)  # unique: the same one
    if answer := request.POST.get("answer"):
        job.answer("confirm", answer == "yes")
    return redirect("passes:satellite_detail", number)
