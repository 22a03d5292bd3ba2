"""The model of a job that gets the result of another one.

Job 0 is the source: it succeeds or fails, is retried, and is pruned. Job 1 names its
result, and needs its success. The result of a life of the source is the number of that
life. A claim of job 1 reads it; its body stores it, and begins only then.
"""

from collections.abc import Iterator

from .machine import FINISHED, QUEUED, Body, Job, Machine, Scope, State, Step, key_of

SOURCE, TAKER = 0, 1
SCOPE = Scope(2, None, lives=2, claims=2, verdicts=("SUCCESS",), has_operators=False)
# What a claim reads of a source that has not ended, or that did not succeed.
NOT_YET, UNFIT = 0, -1


class Flow(Machine):
    """What may happen to two jobs of which one names the result of the other."""

    def __init__(self, scope: Scope = SCOPE):
        super().__init__(scope)

    def beginning(self) -> State:
        state = super().beginning().with_job(TAKER, status="WAITING")
        return state._replace(is_linked=True)

    def steps(self, state: State) -> Iterator[Step]:
        """Job 1 comes back to the queue by an admission alone."""
        for label, after in super().steps(state):
            is_back = after.jobs[TAKER].status == "READY" != state.jobs[TAKER].status
            if is_back and label[0] != "admit":
                after = after.with_job(TAKER, status="WAITING")
            yield label, after
        yield from self.retries(state)
        yield from self.prunings(state)
        for body in state.bodies:
            if not body.has_begun and body.given > NOT_YET:
                yield from self.stores(state, body)

    # The queue

    def admissions(self, state: State) -> Iterator[Step]:
        """Let job 1 go on, or end, once the end of the source is seen."""
        source, job = state.jobs
        if job.status not in ("WAITING", "SCHEDULED"):
            return
        if state.is_linked and source.status == "FAILED":
            after = state._replace(is_linked=False)
            yield ("admit", TAKER), after.with_job(TAKER, status="CANCELLED")
        elif source.status == "SUCCESSFUL" or not state.is_linked:
            yield from self.let_go(state, job)

    def let_go(self, state: State, job: Job) -> Iterator[Step]:
        after = state._replace(is_linked=False)
        if job.status == "SCHEDULED":
            if state.is_linked:
                yield ("admit", TAKER), after
            return
        yield ("admit", TAKER), after.with_job(TAKER, status="READY")
        # A claim alone reads results.
        if state.stored and self.may_skip_ready(state, job):
            yield from self.taken(after, TAKER, "admit and claim")

    def taken(self, state: State, number: int, how: str) -> Iterator[Step]:
        """The source runs in the worker that stays alive: it does not crash."""
        for label, after in super().taken(state, number, how):
            if number == TAKER or label[1] == 1:
                yield label, after

    def informed(self, state: State, body: Body) -> Body:
        if body.job == SOURCE:
            return body
        if state.stored:
            return body._replace(given=state.stored)
        return body._replace(given=self.read(state), has_begun=False)

    def read(self, state: State) -> int:
        source = state.jobs[SOURCE]
        if source.status == "SUCCESSFUL":
            return source.life
        return UNFIT if source.status in FINISHED else NOT_YET

    # Attempts

    def verdicts_of(self, body: Body) -> tuple[str, ...]:
        if body.job == SOURCE:
            return ("SUCCESS", "FAIL")
        if body.has_begun:
            return ("SUCCESS",)
        return {NOT_YET: ("SNOOZE",), UNFIT: ("FAIL",)}.get(body.given, ())

    def recorded(self, state: State, number: int, verdict: str) -> State:
        if verdict != "FAIL":
            return super().recorded(state, number, verdict)
        failures = state.jobs[number].failures + 1
        return state.with_job(number, status="FAILED", owner=None, failures=failures)

    def stores(self, state: State, body: Body) -> Iterator[Step]:
        """Let a body store what it was given, and begin; or leave, if it is late."""
        after = state._replace(bodies=state.bodies - {body})
        if self.may_store(state, body):
            begun = body._replace(has_begun=True)
            after = after._replace(bodies=after.bodies | {begun}, stored=body.given)
        yield ("store", *key_of(body)), after

    def may_store(self, state: State, body: Body) -> bool:
        return not state.stored and self.counts(state.jobs[TAKER], body)

    # Operators, and time

    def retries(self, state: State) -> Iterator[Step]:
        source = state.jobs[SOURCE]
        if source.status not in FINISHED or state.is_gone:
            return
        if source.life < self.scope.lives:
            yield (
                ("retry", SOURCE),
                self.taken_back(self.retried(state, SOURCE, source)),
            )

    def taken_back(self, state: State) -> State:
        """Let job 1 wait again if it has not begun, or was cancelled for the source."""
        job = state.jobs[TAKER]
        if job.status == "CANCELLED" or (job.status in QUEUED and not state.stored):
            status = "SCHEDULED" if job.status == "SCHEDULED" else "WAITING"
            after = state.with_job(TAKER, status=status)
            return after._replace(is_linked=True)
        return state

    def prunings(self, state: State) -> Iterator[Step]:
        """Let the source go while job 1 is about to begin, or runs."""
        source, job = state.jobs
        is_old = source.status in FINISHED and not state.is_gone
        if is_old and job.status in ("READY", "RUNNING") and self.may_prune(state):
            yield ("prune", SOURCE), state._replace(is_gone=True)

    def may_prune(self, state: State) -> bool:
        return bool(state.stored)


def a_claim_reads_the_result_of_the_present_life(old, label, new):
    source = old.jobs[SOURCE]
    is_success = source.status == "SUCCESSFUL" and not old.is_gone
    read = [
        body.given
        for body in new.bodies - old.bodies
        if body.job == TAKER and not body.has_begun and body.given > NOT_YET
    ]
    return all(is_success and life == source.life for life in read)


def what_is_stored_stays(old, label, new):
    return old.stored in (0, new.stored)


def a_body_begins_with_what_is_stored(old, label, new):
    return all(
        body.given == new.stored and new.stored > NOT_YET
        for body in new.bodies
        if body.job == TAKER and body.has_begun
    )


def what_is_named_is_kept(old, label, new):
    is_named = new.jobs[TAKER].status not in FINISHED and not new.stored
    return not (is_named and new.is_gone)


Flow.guarantees = (
    a_claim_reads_the_result_of_the_present_life,
    what_is_stored_stays,
    a_body_begins_with_what_is_stored,
    what_is_named_is_kept,
)
