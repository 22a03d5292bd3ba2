"""Tasks as a user wrote them for another queue; only the import line is ours."""

# fmt: off
# ruff: noqa: F821, I001
from pgjobs import Dependency, same, task

@task
def refresh_data(client_id: int):
    """Pull latest data from APIs."""
    ...

@task
def generate_report(client_id: int, month: str):
    """Generate report from refreshed data."""
    ...

@task(
    dependencies=Dependency(
        generate_report,  # This task must complete first
        hours=2,          # Within the last 2 hours
        client_id=same    # With the same client_id
    )
)
def send_report(client_id: int, email: str):
    """Send the generated report via email."""
    ...

@task(write_all=['format'])
def export_data(client_id: int, format: ['csv', 'json', 'parquet']):
    """Export client data in the specified format."""
    # format is guaranteed to be one of: 'csv', 'json', 'parquet'
    ...

@task(process_units=100)  # Light task: 100MB
def quick_check(client_id: int):
    ...

@task(process_units=2000)  # Heavy task: 2GB
def full_data_refresh(client_id: int):
    ...
