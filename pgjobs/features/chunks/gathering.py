"""Lets jobs that were just claimed take others of their task along, for one call.

The claim brings the first jobs of such a task one by one, as it brings plain jobs. For
each of them that has not joined another one, a second statement claims the rest.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import psycopg

from ...base.database_errors import is_lost, text_of
from ...queue.claiming import ClaimedJob, in_claim_order
from ...queue.recording import Outcome
from ...queue.statements import Execute, array
from ...sql import statement
from ...tasks.registry import registry
from .execution import CALLS, Calling

if TYPE_CHECKING:
    from ...worker.claimer import Claimer

logger = logging.getLogger("pgjobs.worker")

MOST_BYTES = 10_000_000  # of arguments, in one call
# For the transaction: see functions/admission/record.sql.
AS_ADMISSION = "SELECT set_config('pgjobs.admits', 'on', true)"


class Member(ClaimedJob):
    """A claimed job that shares a call with others, or has one to itself."""

    shared: "SharedCall | None" = None  # None of a copy

    @property
    def call(self) -> "SharedCall | None":
        return self.shared


class SharedCall:
    """One call of a function for several jobs, as the worker knows it."""

    def __init__(self, jobs: Sequence[ClaimedJob], runs_alone: bool):
        self.runs_alone = runs_alone
        self.members = [
            job if type(job) is Member else Member._make(job) for job in jobs
        ]
        self.places = {job.lease_token: n for n, job in enumerate(jobs)}
        self.cancelled: set[int] = set()  # tokens of members that were asked to stop
        self.execution: Calling | None = None  # while it runs
        self.ended: Sequence[Outcome] = ()  # the outcomes of all members, after that
        for member in self.members:
            member.shared = self

    def kind(self, usual: type) -> type:
        """Return the class of executions for the call, in place of the usual one."""
        return CALLS[usual]

    def cancel(self, lease_token: int) -> bool:
        """Tell a member that it was asked to stop; return whether it is one."""
        if lease_token not in self.places:
            return False
        self.cancelled.add(lease_token)
        if self.execution is not None:
            self.execution.tell_cancelled(self.places[lease_token])
        return True

    def close(self, ended: Sequence[Outcome]) -> None:
        """Let go of the members, which have ended.

        Otherwise each call would be a circle of thousands of objects, which only the
        garbage collector ends, and that would take as long as all else.
        """
        self.ended = ended
        self.members, self.execution = [], None

    def marked(self, job: ClaimedJob) -> Outcome | None:
        """Return how the function wants a member to end, if it said so.

        It may end at this moment, on another thread.
        """
        execution, place = self.execution, self.places[job.lease_token]
        if execution is not None:
            return execution.marked(place)
        return self.ended[place] if self.ended else None


class MembersClient:
    """What sends the passes of a worker that may have members to record.

    The rows of members have keys. So a trigger would be called for each one, to see
    that a success which a worker records leaves nothing to do. The setting says so.
    Through a pooler each statement is sent alone, so there it would say nothing.
    """

    def __init__(self, claimer: "Claimer"):
        self.in_flight = claimer.in_flight
        self.connection = claimer.connection
        self.together = self.connection.together

    def execute(self, query: str, parameters: dict) -> list[tuple]:
        if not self.in_flight.companions or self.connection.pooled:
            return self.connection.execute(query, parameters)
        _, rows = self.together([(AS_ADMISSION, {}), (query, parameters)])
        return rows


def gathered(claimer: "Claimer", jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
    """Return the jobs of tasks with `chunk`, and those that join their calls.

    Raises psycopg.Error if the connection is lost.
    """
    claimer.client = MembersClient(claimer)
    most = chunks_of({job.task for job in jobs})
    apart = [job for job in jobs if job.task in most]
    claimer.begin([job for job in jobs if job.task not in most])
    made = calls_of(claimer.connection.execute, claimer.worker_id, apart, most)
    calls = [call.members for call in made]
    claimer.in_flight.companions.update(
        member.lease_token for _, *others in calls for member in others
    )
    return [member for members in calls for member in members]


def chunks_of(names: set[str]) -> dict[str, int]:
    """Return how many jobs a call gets at most, of those tasks that have calls."""
    most = {}
    for name in names:
        task = registry.find(name)
        if task is not None and task.options.chunk is not None:
            most[name] = task.options.chunk
    return most


def calls_of(
    execute: Execute,
    worker_id: int,
    jobs: Sequence[ClaimedJob],
    most: dict[str, int],
    among: Sequence[int] | None = None,
) -> Iterator[SharedCall]:
    """Yield the calls of claimed jobs, first those of the first ones.

    `among`: the ids of the jobs that may join them. None stands for all.
    """
    left = {job.id: job for job in jobs}
    for job in jobs:
        if left.pop(job.id, None) is None:
            continue  # it has joined another one
        try:
            call = gather(execute, worker_id, job, left, most[job.task], among)
        except psycopg.Error as error:
            if is_lost(error):
                raise
            logger.error(
                "Job id=%s runs without others, whose claim failed: %s",
                job.id,
                text_of(error),
            )
            call = SharedCall([job], job.is_last_chance)
        for member in call.members:
            left.pop(member.id, None)
        yield call


def gather(
    execute: Execute,
    worker_id: int,
    first: ClaimedJob,
    others: dict[int, ClaimedJob],
    most: int,
    among: Sequence[int] | None,
) -> SharedCall:
    """Claim the jobs that join the first one; return the call of all."""
    rows = execute(
        statement("gather"),
        {
            "worker_id": worker_id,
            "id": first.id,
            "lease_token": first.lease_token,
            "others": array(others),
            "tokens": array(job.lease_token for job in others.values()),
            "most": most,
            "most_bytes": MOST_BYTES,
            "among": None if among is None else array(among),
        },
    )
    ((marked, runs_alone, *_), *_) = rows
    joined = [others[id] for id in marked or () if id != first.id]
    joined += [begun(Member._make(row[2:])) for row in rows if row[2] is not None]
    return SharedCall([first, *in_claim_order(joined)], bool(runs_alone))


def begun(job: Member) -> Member:
    """Return a job that need not have waited until its `chunk_wait` was over."""
    return job._replace(waited=0.0) if (job.waited or 0.0) < 0 else job
