"""What benchmarks say about their figures, and what they measure them on."""

from datetime import timedelta

import pytest

from benchmarks.workers import spread
from pgjobs.models import Schedule


@pytest.mark.django_db
def test_schedules_of_the_benchmark_stay_spread_over_each_minute():
    spread(4, task="any")
    for schedule in Schedule.objects.filter(task="any"):
        first, second = schedule.next_runs(2)
        assert second - first == timedelta(minutes=1), schedule.name
