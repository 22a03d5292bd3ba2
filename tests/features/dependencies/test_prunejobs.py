"""`prunejobs` leaves the successes that dependent jobs may still ask for."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs.models import Job, Prerequisite
from tests.features.operating.test_prunejobs import said
from tests.operators import make_job

pytestmark = pytest.mark.django_db


def test_success_that_others_may_still_ask_for_is_named(capsys):
    make_job("SUCCESSFUL", dependencies={"needs": [], "provides": []})
    Prerequisite.objects.create(
        job_id=Job.objects.get().pk,
        key="k",
        finished_at=timezone.now(),
        needed_until=timezone.now() + timedelta(hours=1),
    )
    text = "Skipped 1 job: what depends on it would run it again."
    assert said(capsys) == ["Deleted 0 jobs.", text]
