"""Imported as a task module: a task that runs each second."""

from datetime import timedelta

from pgjobs import task
from tests.tasks import noop


@task(every=timedelta(seconds=1), overlap="allow", catch_up="all")
def each_second():
    noop()
