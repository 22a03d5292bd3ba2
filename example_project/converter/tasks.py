"""The background work: convert an uploaded file."""

from uuid import UUID

from pgjobs import Fail, current_job, task

from .models import Conversion


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


def report_rows(done, total):
    """Report how many rows are converted."""
    current_job().progress(done, total, f"{done} of {total} rows")
