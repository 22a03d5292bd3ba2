"""The database refuses, from every client, what is too large for a worker."""

import pytest
from django.db import IntegrityError

from tests.actors import execute, job_that_is

pytestmark = pytest.mark.django_db

HUGE = "repeat('x', 50000000)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "INSERT INTO pgjobs_job (task, kwargs)"
            f" VALUES ('tests.echo', jsonb_build_object('value', {HUGE}))",
            "args and kwargs must be no more than 50 MB",
        ),
        (
            "INSERT INTO pgjobs_event (name, payload)"
            f" VALUES ('a.b', jsonb_build_object('value', {HUGE}))",
            "pgjobs_event_payload",
        ),
    ],
)
def test_database_refuses_what_is_too_large_for_a_statement(text, says):
    with pytest.raises(IntegrityError, match=says):
        execute(text)


def test_database_refuses_a_log_that_is_too_large():
    job = job_that_is("READY")
    with pytest.raises(IntegrityError, match="pgjobs_progress_"):
        execute(
            "INSERT INTO pgjobs_progress (job_id, message, log, updated_at)"
            f" VALUES (%(id)s, '', {HUGE} || 'x', now())",
            {"id": job.pk},
        )
