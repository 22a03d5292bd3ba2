"""The model: jobs, workers and messages, and every step that one of them may take.

A state is what the database has, what runs in the workers, and what is on its way from
them. A step yields its label and the state after it. Nothing here knows pgjobs: the
steps say what docs/model.md says, and test_replay.py compares them with the SQL.
"""

from collections.abc import Iterator
from typing import NamedTuple

FINISHED = ("SUCCESSFUL", "FAILED", "CANCELLED")
QUEUED = ("READY", "WAITING", "SCHEDULED")
DONE = ("taken", "over")  # a wait that has ended
MAX_ATTEMPTS, MAX_CRASHES = 2, 2


class Job(NamedTuple):
    status: str
    token: int = 0
    owner: int | None = None  # a worker
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    life: int = 1
    is_cancelled: bool = False  # its owner was asked to stop
    expires: str = "never"  # or "later", or "now"
    sleeps: bool = False  # it was snoozed, and its time has not come
    # Its wait for an answer: "open" while it is suspended, "asked" when it goes on.
    wait: str = ""
    answers: int = 0  # that were told that they count
    is_late: bool = False  # the time of its wait is over
    # See chunks.py: how many are in its call, which one it is, and whose call it is.
    members: int = 1
    place: int = 0
    call: int = 0  # the token of the first one
    part: tuple[int, int] | None = None  # the call that has crashed, and which half

    @property
    def is_expired(self) -> bool:
        return self.expires == "now" and not self.attempts

    @property
    def is_suspended(self) -> bool:
        return self.status == "WAITING" and self.wait == "open"


class Body(NamedTuple):
    """One attempt, as the worker that runs it knows it."""

    worker: int
    job: int
    token: int
    life: int
    attempt: int
    given: int = 0  # the life of the source whose result it has, see flow.py
    has_begun: bool = True
    others: tuple[tuple[int, int], ...] = ()  # of its call: job and token


class Message(NamedTuple):
    """The outcome of an attempt, on its way to the database for as long as it takes."""

    body: Body
    verdict: str


class State(NamedTuple):
    jobs: tuple[Job, ...]
    is_alive: tuple[bool, ...]  # the workers' processes
    is_beating: tuple[bool, ...]  # what the database knows of that
    bodies: frozenset[Body] = frozenset()
    messages: frozenset[Message] = frozenset()
    next_token: int = 1
    # See flow.py: the life whose result is stored, and what became of the source.
    stored: int = 0
    is_linked: bool = False
    is_gone: bool = False

    def with_job(self, number: int, **changes) -> "State":
        jobs = list(self.jobs)
        jobs[number] = jobs[number]._replace(**changes)
        return self._replace(jobs=tuple(jobs))


class Scope(NamedTuple):
    """How much there is of everything."""

    jobs: int
    most: int | None  # may be READY or RUNNING at a time, in order; None: all of them
    lives: int
    claims: int  # of a job in one life
    verdicts: tuple[str, ...] = ("SUCCESS", "RETRY", "RELEASE")
    has_operators: bool = True
    has_expiry: bool = False
    has_timeouts: bool = True  # of waits

    @property
    def expires(self) -> str:
        return "later" if self.has_expiry else "never"

    @property
    def has_waits(self) -> bool:
        return "WAIT" in self.verdicts


Step = tuple[tuple, State]
WORKERS = (0, 1)


class Machine:
    """What may happen. Subclasses with one method changed are bugs to be found."""

    guarantees: tuple = ()  # beside those of all machines

    def __init__(self, scope: Scope):
        self.scope = scope

    def beginning(self) -> State:
        job = Job(self.queued(), expires=self.scope.expires)
        return State((job,) * self.scope.jobs, (True, True), (True, True))

    def queued(self) -> str:
        """Return what becomes of a job in the queue until it has been admitted."""
        return "WAITING" if self.scope.most else "READY"

    def steps(self, state: State) -> Iterator[Step]:
        yield from self.admissions(state)
        for number, job in enumerate(state.jobs):
            yield from self.times(state, number, job)
            yield from self.claims(state, number, job)
            yield from self.releases(state, number, job)
            yield from self.rescues(state, number, job)
            if self.scope.has_operators:
                yield from self.acts(state, number, job)
            if self.scope.has_waits:
                yield from self.answers(state, number, job)
                yield from self.wakes(state, number, job)
        for body in state.bodies:
            yield from self.ends(state, body)
            if self.scope.has_waits:
                yield from self.takes(state, body)
        for message in state.messages:
            yield from self.deliveries(state, message)
        yield from self.fates(state)

    # The queue

    def admissions(self, state: State) -> Iterator[Step]:
        """Let the lowest id that waits take the place that is free."""
        if self.places_taken(state) >= (self.scope.most or 0):
            return
        waiting = [
            number
            for number, job in enumerate(state.jobs)
            if job.status == "WAITING" and not job.is_suspended
        ]
        if waiting:
            first = self.first_of(waiting)
            yield ("admit", first), state.with_job(first, status="READY")
            if self.may_skip_ready(state, state.jobs[first]):
                yield from self.taken(state, first, "admit and claim")

    def may_skip_ready(self, state: State, job: Job) -> bool:
        """Whether an admission may claim: no READY job, and no special one.

        Special are those that may expire, or must run alone: a claim alone decides.
        """
        is_overtaking = any(other.status == "READY" for other in state.jobs)
        may_expire = job.expires != "never" and not job.attempts
        has_one_crash_left = job.crashes + 1 >= MAX_CRASHES
        return not (is_overtaking or may_expire or has_one_crash_left)

    def places_taken(self, state: State) -> int:
        return sum(job.status in ("READY", "RUNNING") for job in state.jobs)

    def first_of(self, waiting: list[int]) -> int:
        return waiting[0]

    def times(self, state: State, number: int, job: Job) -> Iterator[Step]:
        """Let the time come until which a job sleeps, or until which it may begin."""
        if job.status == "SCHEDULED":
            yield ("promote", number), self.awake(state, number)
        if job.expires == "later" and job.status in QUEUED and not job.attempts:
            yield ("pass time", number), state.with_job(number, expires="now")
        if job.status in QUEUED and self.may_expire(job):
            yield ("expire", number), state.with_job(number, status="CANCELLED")

    def awake(self, state: State, number: int) -> State:
        return state.with_job(number, status=self.queued(), sleeps=False)

    def may_expire(self, job: Job) -> bool:
        return job.is_expired

    def claims(self, state: State, number: int, job: Job) -> Iterator[Step]:
        if self.may_claim(state, job):
            yield from self.taken(state, number, "claim")

    def taken(self, state: State, number: int, how: str) -> Iterator[Step]:
        """Let each worker take a job, and hear of it or not."""
        job = state.jobs[number]
        if job.attempts >= self.scope.claims:
            return
        for worker in WORKERS:
            if state.is_alive[worker]:
                token = self.token_of_claim(state, job)
                body = Body(worker, number, token, job.life, job.attempts + 1)
                body = self.informed(state, body)
                claimed = state.with_job(
                    number,
                    status="RUNNING",
                    token=token,
                    owner=worker,
                    attempts=job.attempts + 1,
                )._replace(next_token=state.next_token + 1)
                heard = claimed._replace(bodies=claimed.bodies | {body})
                yield (how, worker, number), heard
                yield (f"{how} unheard", worker, number), claimed

    def informed(self, state: State, body: Body) -> Body:
        """Return the body with what its claim has read of other jobs."""
        return body

    def may_claim(self, state: State, job: Job) -> bool:
        return job.status == "READY" and not job.is_expired

    def token_of_claim(self, state: State, job: Job) -> int:
        return state.next_token

    # Attempts

    def ends(self, state: State, body: Body) -> Iterator[Step]:
        """Let a body end, even if its job belongs to another worker by now."""
        job = state.jobs[body.job]
        for verdict in self.verdicts_of(body):
            if verdict == "WAIT" and job.wait in DONE and self.counts(job, body):
                continue
            message = Message(body, verdict)
            yield (
                ("end", *key_of(body), verdict),
                state._replace(
                    bodies=state.bodies - {body}, messages=state.messages | {message}
                ),
            )

    def verdicts_of(self, body: Body) -> tuple[str, ...]:
        return self.scope.verdicts

    def deliveries(self, state: State, message: Message) -> Iterator[Step]:
        """Let a message arrive; its answer may be lost, and it is sent once more."""
        body = message.body
        after = state
        if self.counts(state.jobs[body.job], body):
            after = self.recorded(state, body.job, message.verdict)
        label = (*key_of(body), message.verdict)
        yield (
            ("deliver", *label),
            after._replace(messages=state.messages - {message}),
        )
        if after != state:
            yield ("deliver unheard", *label), after

    def counts(self, job: Job, body: Body) -> bool:
        return job.token == body.token and job.owner == body.worker

    def recorded(self, state: State, number: int, verdict: str) -> State:
        job = state.jobs[number]
        if verdict == "WAIT":
            return self.suspended(state, number, job)
        failures = job.failures + self.counts_as_failure(verdict)
        if verdict == "SUCCESS":
            status = "SUCCESSFUL"
        elif self.minds_cancel(job):
            status = "CANCELLED"
        elif verdict == "RETRY" and failures >= MAX_ATTEMPTS:
            status = "FAILED"
        elif verdict == "SNOOZE":
            status = "SCHEDULED"
        else:
            status = self.queued()
        return state.with_job(
            number,
            status=status,
            owner=None,
            failures=failures,
            sleeps=status == "SCHEDULED",
        )

    def suspended(self, state: State, number: int, job: Job) -> State:
        """Let a job wait: it counts its failures and crashes anew."""
        changes = {"status": "WAITING", "wait": "open"}
        if self.minds_cancel(job):
            changes = {"status": "CANCELLED"}
        return state.with_job(number, owner=None, failures=0, crashes=0, **changes)

    def counts_as_failure(self, verdict: str) -> bool:
        return verdict == "RETRY"

    def minds_cancel(self, job: Job) -> bool:
        return job.is_cancelled

    def releases(self, state: State, number: int, job: Job) -> Iterator[Step]:
        """Let a worker put back what it owns without knowing."""
        if job.owner is None or not state.is_alive[job.owner]:
            return
        known = state.bodies | {message.body for message in state.messages}
        if not any(body.token == job.token for body in known):
            yield (
                ("release orphan", job.owner, number),
                self.recorded(state, number, "RELEASE"),
            )

    # Waits

    def answers(self, state: State, number: int, job: Job) -> Iterator[Step]:
        """Let somebody answer. It wakes the job if it is seen to wait."""
        if job.status not in FINISHED and self.may_answer(job):
            after = state.with_job(number, answers=job.answers + 1)
            yield ("answer", number), self.woken(after, number)

    def may_answer(self, job: Job) -> bool:
        return not job.answers and job.wait not in DONE

    def wakes(self, state: State, number: int, job: Job) -> Iterator[Step]:
        """Let a worker look at what came before the job was seen to wait."""
        if job.is_suspended and job.answers:
            yield ("wake", number), self.woken(state, number)
        if job.is_suspended and self.scope.has_timeouts:
            after = self.woken(state, number)
            yield ("time out", number), after.with_job(number, is_late=True)

    def woken(self, state: State, number: int) -> State:
        if not state.jobs[number].is_suspended:
            return state
        return state.with_job(number, status=self.queued(), wait="asked")

    def takes(self, state: State, body: Body) -> Iterator[Step]:
        """Let a body ask for its answer, which ends the wait, or for its time."""
        job = state.jobs[body.job]
        if not self.may_take(job, body) or job.wait in DONE:
            return
        if end := self.end_of_wait(job):
            yield ("take", *key_of(body)), state.with_job(body.job, wait=end)

    def may_take(self, job: Job, body: Body) -> bool:
        return self.counts(job, body)

    def end_of_wait(self, job: Job) -> str:
        if job.answers:
            return "taken"
        return "over" if job.is_late else ""

    # Rescue

    def rescues(self, state: State, number: int, job: Job) -> Iterator[Step]:
        if job.owner is None or state.is_beating[job.owner]:
            return
        crashes = job.crashes + 1
        if self.minds_cancel(job):
            status = "CANCELLED"
        else:
            status = "FAILED" if crashes >= MAX_CRASHES else self.queued()
        after = state.with_job(
            number,
            status=status,
            owner=None,
            crashes=crashes,
            token=self.token_of_rescue(state, job),
        )
        yield ("rescue", number), after._replace(next_token=state.next_token + 1)

    def token_of_rescue(self, state: State, job: Job) -> int:
        return state.next_token

    # Operators

    def acts(self, state: State, number: int, job: Job) -> Iterator[Step]:
        if job.status in FINISHED:
            if job.life < self.scope.lives:
                yield ("retry", number), self.retried(state, number, job)
                if self.scope.has_waits:
                    yield ("retry keeping", number), self.kept(state, number, job)
            return
        if job.status == "SCHEDULED":
            yield ("run now", number), self.awake(state, number)
        if job.status in QUEUED:
            yield ("cancel", number), state.with_job(number, status="CANCELLED")
        elif not job.is_cancelled:
            yield ("cancel", number), state.with_job(number, is_cancelled=True)
        after = state.with_job(number, status="FAILED", owner=None)
        if job.status == "RUNNING":
            token = self.token_of_act(state, job)
            after = after.with_job(number, token=token)
            after = after._replace(next_token=state.next_token + 1)
        yield ("fail", number), after

    def retried(self, state: State, number: int, job: Job) -> State:
        token = self.token_of_retry(job)
        status = "SCHEDULED" if job.sleeps else self.queued()
        new_life = Job(status, token, life=job.life + 1, sleeps=job.sleeps)
        return state.with_job(number, **new_life._asdict())

    def kept(self, state: State, number: int, job: Job) -> State:
        """Keep the answer that was taken; what is pending, or was late, begins anew."""
        after = self.retried(state, number, job)
        if job.wait != "taken":
            return after
        return after.with_job(number, wait=job.wait, answers=job.answers)

    def token_of_retry(self, job: Job) -> int:
        return job.token

    def token_of_act(self, state: State, job: Job) -> int:
        return state.next_token

    # Workers

    def fates(self, state: State) -> Iterator[Step]:
        """Let the first worker fall silent, beat again, or die; the second lives."""
        worker = 0
        beating = state._replace(is_beating=(True, True))
        silent = state._replace(is_beating=(False, True))
        if not state.is_alive[worker]:
            return
        if state.is_beating[worker]:
            yield ("fall silent", worker), silent
        else:
            yield ("beat", worker), beating
        left = frozenset(body for body in state.bodies if body.worker != worker)
        dead = silent._replace(is_alive=(False, True), bodies=left)
        yield ("die", worker), dead


def key_of(body: Body) -> tuple[int, int, int, int]:
    """Return what tells attempts apart, whatever their tokens are."""
    return body.worker, body.job, body.life, body.attempt
