"""Keeps log records of a job's own code with the job, as `current_job().log()` does."""

import logging
from threading import Lock

from ...base.plain_json import shortened
from ...tasks.running_job import RunningJob, current
from .outcomes import traceback_text

OWN = "pgjobs"


class KeepingHandler(logging.Handler):
    """Gives records to the job in whose context they are made, if it wants them.

    The loop stores them with the job's other lines: in batches, bounded, and also while
    the job's own transaction is open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lock_of_use = Lock()
        self.is_installed = False

    def install(self) -> None:
        """Listen to all loggers from now on; the first job that keeps logs needs it."""
        with self.lock_of_use:
            if not self.is_installed:
                logging.getLogger().addHandler(self)
                self.is_installed = True

    def emit(self, record: logging.LogRecord) -> None:
        job = current.get(None)
        if job is None or job.keeps_level is None or record.levelno < job.keeps_level:
            return
        if record.name.partition(".")[0] != OWN:
            keep(job, record)


def keep(job: RunningJob, record: logging.LogRecord) -> None:
    """Add a record to the job's lines, whatever its arguments are like."""
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001  (a line of a log fails no job)
        text = f"{shortened(record.msg)} <{type(error).__name__}>"
    job.log(f"{record.levelname} {record.name}: {text}")
    if record.exc_info and record.exc_info[1] is not None:
        job.log(traceback_text(record.exc_info[1], job.hide))


handler = KeepingHandler()
