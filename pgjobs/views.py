"""The public views of a job: its status as JSON, and the page for an answer."""

from .features.durable.page import answer_job
from .features.public_status.view import holds_address, job_status

__all__ = ["answer_job", "holds_address", "job_status"]
