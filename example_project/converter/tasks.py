"""The background work: convert an uploaded file, and forget it later."""

from uuid import UUID

from pgjobs import Fail, current_job, task

from .models import Conversion

try:
    from django.tasks import task as django_task
except ImportError:  # before Django 6.0
    from django_tasks import task as django_task


@task
def convert_file(conversion_id: UUID) -> dict:
    """Convert an uploaded file and store the result beside it."""
    # Not above: pyarrow takes 30 MB of every process that knows this task.
    from .tables import UnreadableTable, convert_table

    conversion = Conversion.objects.filter(pk=conversion_id).first()
    if conversion is None:
        raise Fail("The upload was deleted before it was converted.")
    try:
        converted = convert_table(conversion.source, conversion.suffix, report_rows)
    except UnreadableTable as error:
        raise Fail(str(error)) from error  # The next attempt would fare no better.
    conversion.result, conversion.rows, conversion.columns = converted
    conversion.save(update_fields=["result", "rows", "columns"])
    return {"rows": converted.rows, "columns": converted.columns}


@django_task
def forget_conversion(conversion_id):
    """Delete an upload and its result.

    A task of Django's own API: it needs nothing that only pgjobs has. So it would run
    with any other backend. Arguments are JSON there, so the id comes as a text.
    """
    Conversion.objects.filter(pk=conversion_id).delete()


def report_rows(done, total):
    """Report how many rows are converted."""
    current_job().progress(done, total, f"{done} of {total} rows")
