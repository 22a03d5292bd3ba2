"""Imported as a task module: a receiver that is slower than the jobs."""

import time

from pgjobs import signals


def receive(sender, job, **kwargs):
    time.sleep(0.3)


signals.job_finished.connect(receive)
