"""Take files, have them converted in the background, and give them back."""

from datetime import timedelta
from io import BytesIO

from django.db import transaction
from django.http import FileResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)
from pgjobs import enqueue

from example.jobs import accepted, prefers_json

from .forms import UploadForm
from .models import Conversion
from .tasks import convert_file, forget_conversion

KEPT_FOR = timedelta(days=7)


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request):
    """Take a file and enqueue its conversion, or say what is wrong with it."""
    if request.method != "POST":
        return render(request, "converter/upload.html", {"form": UploadForm()})
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        return _start(request, form.cleaned_data["file"].name, form.content)
    if prefers_json(request):
        return JsonResponse({"errors": form.errors}, status=400)
    return render(request, "converter/upload.html", {"form": form}, status=400)


@require_POST
def convert_back(request, pk):
    """Convert the result of a conversion back into the format it came from."""
    first = get_object_or_404(Conversion, pk=pk, result__isnull=False)
    return _start(request, first.result_name, first.result)


@require_safe
def conversion_detail(request, pk):
    """Show what became of a file."""
    conversion = get_object_or_404(Conversion.objects.with_sizes(), pk=pk)
    job = conversion.job
    context = {
        "conversion": conversion,
        "job": job,
        "status_url": job and not job.is_finished and job.get_status_url(),
    }
    return render(request, "converter/conversion_detail.html", context)


@require_safe
def download(request, pk):
    """Send the result as a file."""
    conversion = get_object_or_404(Conversion, pk=pk, result__isnull=False)
    return FileResponse(
        BytesIO(conversion.result),
        as_attachment=True,
        filename=conversion.result_name,
        content_type=conversion.result_content_type,
    )


def _start(request, source_name, source):
    forget_later = forget_conversion.using(run_after=timezone.now() + KEPT_FOR)
    # One transaction: there is no file without its jobs and no job without its file.
    with transaction.atomic():
        conversion = Conversion.objects.create(source_name=source_name, source=source)
        job = enqueue(convert_file, conversion.pk)
        forget_later.enqueue(str(conversion.pk))
        conversion.job_id = job.pk
        conversion.save(update_fields=["job_id"])
    result_url = reverse("converter:conversion_detail", args=[conversion.pk])
    return accepted(request, job, result_url)
