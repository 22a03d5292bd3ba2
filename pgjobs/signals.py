"""Signals, sent by `Job` with `job=`; a receiver that raises is logged, not obeyed.

`job_enqueued` is sent once per job, in the caller's transaction (not for jobs that SQL
has inserted, or a worker for a schedule, an event or a dependency); `job_started` once
per attempt, in the job's own thread; `job_finished` once per life, after the outcome is
stored, in the process that ended the job (not for jobs that the database ended
because of another).
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from django.dispatch import Signal

logger = logging.getLogger("pgjobs.signals")

# Cached, because each job asks whether there are receivers.
job_enqueued = Signal(use_caching=True)
job_started = Signal(use_caching=True)
job_finished = Signal(use_caching=True)


class EndListener(Protocol):
    """Hears of the end of some jobs beside the receivers of `job_finished`.

    It is not asked for each job of the others, as a receiver would be.
    """

    def of_interest(self, ends: Sequence[Any]) -> Sequence[Any]:
        """Return of these ends of attempts those to hear of; called by the loop."""

    def ended(self, database: str, ids: Iterable[int]) -> None:
        """Hear of jobs that have ended; the database knows which of them concern it."""

    def ended_here(self, ends: Sequence[Any]) -> None:
        """Hear of attempts of this process, each the last of its job."""


end_listeners: list[EndListener] = []


def send(signal: Signal, sender: type, **named) -> None:
    """Send a signal; log what its receivers raise."""
    for receiver, result in signal.send_robust(sender, **named):
        if isinstance(result, Exception):
            name = getattr(receiver, "__qualname__", receiver)
            logger.error("Signal receiver=%s failed", name, exc_info=result)
