"""Signals. A receiver that raises is logged and changes nothing.

Of jobs, sent by `Job` with `job=`:

- `job_enqueued`: once per job, in the caller's transaction. It is not sent for jobs
  that SQL has inserted, or a worker for a schedule, an event or a dependency.
- `job_started`: once per attempt, in the job's own thread.
- `job_retried`: an attempt has failed, and the job will be tried again.
- `job_finished`: once per life, after the end is stored, in the process that ended the
  job. It is not sent for jobs that the database ended because of another. Right after
  it one of `job_succeeded`, `job_failed` and `job_cancelled` is sent.

`job_retried` and `job_failed` have `error=` too: the exception, or None if this process
has not seen it.

Of workers, sent by `Worker` with `worker=`, in the worker's process:

- `worker_started`: before the worker claims its first job, which waits for it.
- `worker_stopping`: after the last job has ended, as the last signal of all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from asgiref.sync import async_to_sync
from django.dispatch import Signal

from .base.transactions import sparing_transactions

logger = logging.getLogger("pgjobs.signals")

# Cached, because each job asks whether there are receivers.
job_enqueued = Signal(use_caching=True)
job_started = Signal(use_caching=True)
job_retried = Signal(use_caching=True)
job_finished = Signal(use_caching=True)
job_succeeded = Signal(use_caching=True)
job_failed = Signal(use_caching=True)
job_cancelled = Signal(use_caching=True)
worker_started = Signal(use_caching=True)
worker_stopping = Signal(use_caching=True)

# The signals for the end of an attempt, by the word for that end.
OF_ENDS = {
    "SUCCESSFUL": (job_finished, job_succeeded),
    "FAILED": (job_finished, job_failed),
    "CANCELLED": (job_finished, job_cancelled),
    "RETRY": (job_retried,),
}
WITH_ERROR = (job_retried, job_failed)


class EndListener(Protocol):
    """Hears when some jobs end, as receivers of `job_finished` do.

    Unlike a receiver it chooses its jobs first, and costs nothing for all others.
    """

    def of_interest(self, ends: Sequence[Any]) -> Sequence[Any]:
        """Return the ends of attempts that it wants to hear of; the loop calls this.

        It is not asked about tasks that `@task` has made.
        """

    def ended(self, database: str, ids: Iterable[int]) -> None:
        """Hear of jobs that have ended anywhere; it finds those that concern it."""

    def ended_here(self, database: str, ends: Sequence[Any]) -> None:
        """Hear of jobs whose last attempt has ended in this process."""


end_listeners: list[EndListener] = []


# What a receiver may raise beside `Exception` without an effect. A time limit, and
# Ctrl+C in a web process, are not the receiver's and go through.
EXITS = (SystemExit, GeneratorExit, asyncio.CancelledError)


def send(signal: Signal, sender: type, **named) -> None:
    """Send a signal; log what its receivers raise.

    A statement of theirs that fails undoes what they all did in a transaction that is
    open, and spares what others did in it. `Signal.send_robust` would let `SystemExit`
    through: it would end what sends.
    """
    if signal.has_listeners(sender):
        with sparing_transactions():
            call_all(signal, sender, named)


def call_all(signal: Signal, sender: type, named: dict[str, Any]) -> None:
    receivers, coroutines = signal._live_receivers(sender)
    named |= {"signal": signal, "sender": sender}
    for receiver in receivers:
        try:
            receiver(**named)
        except (Exception, *EXITS) as error:  # noqa: BLE001
            log_failure(receiver, error)
    if coroutines:
        async_to_sync(call_together)(coroutines, named)


async def call_together(receivers: Iterable[Callable], named: dict[str, Any]) -> None:
    async def call(receiver: Callable) -> None:
        try:
            await receiver(**named)
        except (Exception, *EXITS) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            log_failure(receiver, error)

    await asyncio.gather(*map(call, receivers))


def is_being_cancelled() -> bool:
    """Whether the coroutine is cancelled from outside, not by an error of its own."""
    this = asyncio.current_task()
    return this is not None and this.cancelling() > 0


def log_failure(receiver: Callable, error: BaseException) -> None:
    name = getattr(receiver, "__qualname__", receiver)
    logger.error("Signal receiver=%s failed", name, exc_info=error)


def is_heard(sender: type, *ends: str) -> bool:
    """Whether any receiver hears of such ends; without `ends`, of any end."""
    for end in ends or OF_ENDS:
        for signal in OF_ENDS.get(end, ()):
            if signal.has_listeners(sender):
                return True
    return False


def send_end(
    end: str, sender: type, job: Any, error: BaseException | None = None
) -> None:
    """Send the signals of the end of an attempt."""
    for signal in OF_ENDS.get(end, ()):
        named = {"error": error} if signal in WITH_ERROR else {}
        send(signal, sender, job=job, **named)
