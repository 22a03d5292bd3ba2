"""`prunejobs` says which events it has left, and why."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs.models import Delivery, Event
from tests.actors import execute
from tests.features.operating.test_prunejobs import said
from tests.operators import make_job

pytestmark = pytest.mark.django_db


def test_event_whose_delivery_has_failed_is_named(capsys):
    event = Event.objects.create(name="e", payload={}, handlers=1)
    Delivery.objects.create(
        event=event, job=make_job("FAILED"), task="tests.noop", origin="published"
    )
    Event.objects.update(published_at=timezone.now() - timedelta(hours=1))
    options = ("--status", "cancelled")
    assert said(capsys, *options) == ["Deleted 0 jobs."]
    execute("UPDATE pgjobs_job SET finished_at = clock_timestamp() + interval '1 h'")
    assert said(capsys) == [
        "Deleted 0 jobs.",
        "Skipped 1 event: jobs that deliver it have failed or not ended.",
    ]
