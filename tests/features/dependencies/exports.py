"""A task that writes each of its formats."""

from pgjobs import task


@task(name="exports.export_data", write_all=["format"])
def export_data(
    client_id: int,
    format: ["csv", "json", "parquet"],  # noqa: F821
) -> str:
    """Export client data in the specified format."""
    return f"{client_id}.{format}"
