"""The options of schedules: where they belong."""

import pytest

from pgjobs import task
from pgjobs.exceptions import InvalidTask
from tests.tasks import noop


def test_option_that_belongs_elsewhere_is_sent_there():
    with pytest.raises(InvalidTask, match=r"'arguments' \(say @schedule\(arguments="):
        task(arguments={})(noop.function)
    with pytest.raises(InvalidTask, match=r"'cron' \(say @task\(cron=\.\.\.\)\)"):
        noop.using(cron="@daily")
