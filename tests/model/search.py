"""Visit every state that the model can be in, and judge every step."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .guarantees import GUARANTEES, Guarantee, no_more_than, the_lowest_id_is_next
from .machine import FINISHED, QUEUED, Body, Job, Machine, Message, State


class Found(NamedTuple):
    """The states, each with the step that first led there, and broken guarantees."""

    came_from: dict[State, tuple[State, tuple] | None]
    arrows: dict[State, list[State]]  # backwards
    ends: list[State]
    broken: dict[str, tuple[State, tuple]]

    def path_to(self, state: State) -> list[tuple]:
        """Return the labels of the shortest way there."""
        labels = []
        while (step := self.came_from[state]) is not None:
            state, label = step
            labels.append(label)
        return labels[::-1]

    @property
    def stuck(self) -> set[State]:
        """The states from which no way leads to an end of all jobs."""
        alive, reached = set(self.ends), list(self.ends)
        while reached:
            for before in self.arrows.get(reached.pop(), ()):
                if before not in alive:
                    alive.add(before)
                    reached.append(before)
        return self.came_from.keys() - alive


def has_ended(machine: Machine, state: State) -> bool:
    """Whether all jobs have, or one may be claimed no more in this scope."""
    return all(job.status in FINISHED for job in state.jobs) or any(
        job.status in QUEUED and job.attempts >= machine.scope.claims
        for job in state.jobs
    )


def guarantees_of(machine: Machine) -> list[Guarantee]:
    if most := machine.scope.most:
        return [*GUARANTEES, no_more_than(most), the_lowest_id_is_next]
    return [*GUARANTEES, *machine.guarantees]


def search(machine: Machine, sought: str = "") -> Found:
    """Visit all states, the nearest first, until the sought guarantee is broken."""
    begin = compressed(machine.beginning())
    found = Found({begin: None}, {}, [], {})
    guarantees = guarantees_of(machine)
    waiting = deque([begin])
    while waiting and sought not in found.broken:
        state = waiting.popleft()
        if has_ended(machine, state):
            found.ends.append(state)
        for label, after in machine.steps(state):
            for name in broken_by(guarantees, state, label, after):
                found.broken.setdefault(name, (state, label))
            following = compressed(after)
            found.arrows.setdefault(following, []).append(state)
            if following not in found.came_from:
                found.came_from[following] = (state, label)
                waiting.append(following)
    return found


def broken_by(
    guarantees: Sequence[Guarantee], state: State, label: tuple, after: State
) -> Iterator[str]:
    for each in guarantees:
        if not each(state, label, after):
            yield each.__name__


def compressed(state: State) -> State:
    """Number the tokens afresh, in their order: only that and equality count."""
    bodies = state.bodies | {message.body for message in state.messages}
    used = {job.token for job in state.jobs} | {body.token for body in bodies}
    used |= {job.call for job in state.jobs}
    used |= {job.part[0] for job in state.jobs if job.part}
    used |= {token for body in bodies for _, token in body.others}
    new = {token: place for place, token in enumerate(sorted(used | {0}))}

    def renamed(body: Body) -> Body:
        others = tuple((number, new[token]) for number, token in body.others)
        return body._replace(token=new[body.token], others=others)

    def of_job(job: Job) -> Job:
        part = job.part and (new[job.part[0]], job.part[1])
        return job._replace(token=new[job.token], call=new[job.call], part=part)

    return state._replace(
        jobs=tuple(map(of_job, state.jobs)),
        bodies=frozenset(map(renamed, state.bodies)),
        messages=frozenset(
            Message(renamed(b), verdict) for b, verdict in state.messages
        ),
        next_token=len(new),
    )
