"""The model of jobs of one task that share calls.

A claim brings the first job of a call, and a second statement the others. The call is
one body, which ends for all of its members at once. A rescue halves a call of several.
"""

from collections.abc import Iterator

from .machine import (
    WORKERS,
    Body,
    Job,
    Machine,
    Message,
    Scope,
    State,
    Step,
    key_of,
)

SCOPES = {
    "two jobs": Scope(
        2, None, lives=1, claims=2, verdicts=("SUCCESS",), has_operators=False
    ),
    "a call that fails": Scope(
        2, None, lives=1, claims=2, verdicts=("RETRY",), has_operators=False
    ),
}


class Chunks(Machine):
    """What may happen to jobs that share calls."""

    # The claim, and what joins it

    def taken(self, state: State, number: int, how: str) -> Iterator[Step]:
        """Let a job be claimed alone; one of a half waits for an idle worker."""
        for label, after in super().taken(state, number, how):
            if self.has_room(state, label[1], state.jobs[number]):
                bodies = {
                    each._replace(has_begun=False)
                    for each in after.bodies - state.bodies
                }
                yield label, after._replace(bodies=state.bodies | bodies)

    def has_room(self, state: State, worker: int, job: Job) -> bool:
        held = [each for each in state.jobs if each.owner == worker]
        return not held if job.part else not any(each.part for each in held)

    def steps(self, state: State) -> Iterator[Step]:
        """Leave out what others try: lost answers, and workers that beat again.

        Without that there would be too many states to visit.
        """
        for label, after in super().steps(state):
            if label[0] not in ("claim unheard", "record unheard", "beat"):
                yield label, after
        for body in state.bodies:
            if not body.has_begun:
                yield from self.gathers(state, body)

    def gathers(self, state: State, body: Body) -> Iterator[Step]:
        """Let the others join the call, whether its worker hears of them or not."""
        first = state.jobs[body.job]
        left = state._replace(bodies=state.bodies - {body})
        if not self.counts(first, body):
            begun = body._replace(has_begun=True)
            yield ("gather", *key_of(body)), left._replace(bodies=left.bodies | {begun})
            return
        others = [
            number
            for number, job in enumerate(state.jobs)
            if number != body.job
            and self.may_join(job, first)
            and job.attempts < self.scope.claims
        ]
        members = [body.job, *others]
        after, tokens = left, []
        for place, number in enumerate(members):
            job = after.jobs[number]
            changes = {"members": len(members), "place": place, "call": body.token}
            if number != body.job:
                tokens.append((number, after.next_token))
                changes |= {
                    "status": "RUNNING",
                    "token": after.next_token,
                    "owner": body.worker,
                    "attempts": job.attempts + 1,
                    "part": first.part,
                }
                after = after._replace(next_token=after.next_token + 1)
            after = after.with_job(number, **changes)
        begun = body._replace(has_begun=True, others=tuple(tokens))
        yield ("gather", *key_of(body)), after._replace(bodies=after.bodies | {begun})
        yield ("gather unheard", *key_of(body)), after

    def may_join(self, job: Job, first: Job) -> bool:
        return job.status == "READY" and job.part == first.part

    # Its end, of all at once

    def ends(self, state: State, body: Body) -> Iterator[Step]:
        if body.has_begun:
            yield from super().ends(state, body)

    def deliveries(self, state: State, message: Message) -> Iterator[Step]:
        """Let one statement record all members that are still of this call."""
        for (name, *what), after in super().deliveries(state, message):
            label = (name.replace("deliver", "record"), *what)
            yield label, self.recorded_others(after, message)

    def recorded_others(self, state: State, message: Message) -> State:
        worker = message.body.worker
        for number, token in message.body.others:
            own = Body(worker, number, token, 1, 1)
            if self.counts_beside(state.jobs[number], own):
                state = self.recorded(state, number, message.verdict)
        return state

    def counts_beside(self, job: Job, body: Body) -> bool:
        return self.counts(job, body)

    def recorded(self, state: State, number: int, verdict: str) -> State:
        return apart(super().recorded(state, number, verdict), number)

    def releases(self, state: State, number: int, job: Job) -> Iterator[Step]:
        bodies = state.bodies | {message.body for message in state.messages}
        known = {token for body in bodies for _, token in body.others}
        if job.token not in known:
            yield from super().releases(state, number, job)

    # Rescue

    def rescues(self, state: State, number: int, job: Job) -> Iterator[Step]:
        for label, after in super().rescues(state, number, job):
            after = apart(after, number)
            if job.members > 1:
                after = after.with_job(
                    number,
                    status=self.queued(),
                    crashes=job.crashes + self.counts_for_each(),
                    part=self.half_of(job),
                )
            yield label, after

    def counts_for_each(self) -> int:
        return 0

    def half_of(self, job: Job) -> tuple[int, int] | None:
        """Return the call and the half that the job was in."""
        return (job.call, int(2 * job.place >= job.members))


def apart(state: State, number: int) -> State:
    """Return the state in which a job is in no call, and in no half of one."""
    return state.with_job(number, members=1, place=0, call=0, part=None)


def only_members_of_the_call_are_recorded(old: State, label: tuple, new: State) -> bool:
    if not label[0].startswith("record"):
        return True
    (body,) = {
        message.body for message in old.messages if key_of(message.body) == label[1:5]
    }
    tokens = {body.job: body.token, **dict(body.others)}
    return all(
        before == after
        or (before.status == "RUNNING" and before.token == tokens.get(number))
        for number, (before, after) in enumerate(zip(old.jobs, new.jobs, strict=True))
    )


def a_call_takes_along_what_is_ready_and_of_its_half(old, label, new):
    if not label[0].startswith("gather"):
        return True
    first = old.jobs[label[2]]
    return all(
        before == after or (before.status == "READY" and before.part == first.part)
        for number, (before, after) in enumerate(zip(old.jobs, new.jobs, strict=True))
        if number != label[2]
    )


def no_job_has_the_token_of_another_one(old, label, new):
    tokens = [job.token for job in new.jobs if job.owner is not None]
    return len(tokens) == len(set(tokens))


def a_crash_of_several_counts_for_none(old, label, new):
    if label[0] != "rescue":
        return True
    before, after = old.jobs[label[1]], new.jobs[label[1]]
    return after.crashes == before.crashes + (before.members == 1)


def a_crash_of_several_halves_them(old, label, new):
    """Those that may share a call next are no more than half of them, rounded up."""
    if label[0] != "rescue" or old.jobs[label[1]].members == 1:
        return True
    before, after = old.jobs[label[1]], new.jobs[label[1]]
    together = sum(job.part == after.part for job in new.jobs)
    return bool(after.part) and 2 * together <= before.members + 1


def a_half_is_alone_in_its_worker(old, label, new):
    for worker in WORKERS:
        held = [job for job in new.jobs if job.owner == worker]
        halves = [job for job in held if job.part]
        if halves and {job.part for job in held} != {halves[0].part}:
            return False
    return True


Chunks.guarantees = (
    only_members_of_the_call_are_recorded,
    a_call_takes_along_what_is_ready_and_of_its_half,
    no_job_has_the_token_of_another_one,
    a_crash_of_several_counts_for_none,
    a_crash_of_several_halves_them,
    a_half_is_alone_in_its_worker,
)
