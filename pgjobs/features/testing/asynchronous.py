"""The kit in async tests: the same functions, awaited."""

from functools import partial
from typing import Any

from asgiref.sync import sync_to_async

from ...models.job import Job
from . import assertions
from .performing import perform
from .running import run_jobs


async def aenqueued(*args: Any, **kwargs: Any) -> list[Job]:
    """Return the jobs in the queue that are like this; see `enqueued`."""
    return await sync_to_async(partial(assertions.enqueued, *args, **kwargs))()


async def aassert_enqueued(*args: Any, **kwargs: Any) -> Job:
    """Fail unless the queue has a job like this; see `assert_enqueued`."""
    return await sync_to_async(partial(assertions.assert_enqueued, *args, **kwargs))()


async def arefute_enqueued(*args: Any, **kwargs: Any) -> None:
    """Fail if the queue has a job like this; see `refute_enqueued`."""
    await sync_to_async(partial(assertions.refute_enqueued, *args, **kwargs))()


async def aperform(bound: Any, *arguments: Any, **options: Any) -> Any:
    """Run `task.bind(...)` as the job of a worker; see `perform`."""
    return await sync_to_async(partial(perform, bound, *arguments, **options))()


async def arun_jobs(**options: Any) -> list[Job]:
    """Run the jobs that are ready; see `run_jobs`."""
    return await sync_to_async(partial(run_jobs, **options))()
