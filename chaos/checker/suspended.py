"""Jobs that wait: each takes what it was given, once, and goes on.

A job and those as which it goes on have one mark. What was given to it stands in
`gifts`, by the transaction that gave it; what it took, in its effects.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from .evidence import Evidence, Version, Violation
from .expectations import SHORTEST_WAIT, WAITING
from .families import was_touched
from .spans import Span, merged
from .verdicts import verdict
from .waits import SETTLING, STEP, longest_wait, seconds_outside, span_of

LOOKS = 5.0  # seconds between two looks of a worker at what jobs wait for
EARLY = 0.1  # seconds: the times of a version and of an effect are not one
TOOK, OVER = "took ", "None"


@dataclass
class Succession:
    """A job that waits, and all as which it went on."""

    mark: str
    jobs: dict[int, list[Version]]
    taken: dict[str, set[int]]  # what, such as "answer 7:1/1"; the jobs that took it

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self.jobs)

    @property
    def has_succeeded(self) -> bool:
        return all(each[-1].status == "SUCCESSFUL" for each in self.jobs.values())

    def number(self, condition) -> int:
        """Return of how many jobs some version meets the condition."""
        return sum(any(map(condition, each)) for each in self.jobs.values())


def successions(evidence: Evidence) -> Iterator[Succession]:
    """Yield those in which no operator has interfered."""
    jobs: dict[str, dict[int, list[Version]]] = defaultdict(dict)
    for job_id, versions in evidence.honest.items():
        if versions[0].task in WAITING:
            jobs[versions[0].mark or ""][job_id] = versions
    taken: dict[int, set[str]] = defaultdict(set)
    for effect in evidence.effects:
        if effect.what.startswith(TOOK):
            taken[effect.job_id].add(effect.what.removeprefix(TOOK))
    for mark, found in jobs.items():
        if any(map(was_touched, found.values())):
            continue
        succession = Succession(mark, found, defaultdict(set))
        for job_id in found:
            for what in taken[job_id]:
                succession.taken[what].add(job_id)
        yield succession


@verdict("answer lost", "what a job was given before its wait ended it takes")
def answer_lost(evidence: Evidence) -> Iterator[Violation]:
    given = defaultdict(list)
    for gift in evidence.gifts:
        given[gift.mark].append(gift.value)
    for each in successions(evidence):
        for value in given[each.mark] if each.has_succeeded else ():
            if value not in each.taken:
                yield Violation(f"{each.mark} never took {value}", each.ids)


@verdict("answer taken twice", "an answer or event ends one wait, once")
def taken_twice(evidence: Evidence) -> Iterator[Violation]:
    for each in successions(evidence):
        waits: dict[tuple[int, str], set[str]] = defaultdict(set)
        takers: dict[str, set[tuple[int, str]]] = defaultdict(set)
        for what, job_ids in each.taken.items():
            name, _, value = what.partition(" ")
            for job_id in job_ids:
                waits[job_id, name].add(value)
                if value != OVER:
                    takers[value].add((job_id, name))
        for (job_id, name), values in waits.items():
            if len(values) > 1:
                text = f"{name} of job {job_id} is {' and '.join(sorted(values))}"
                yield Violation(text, (job_id,))
        for value, found in takers.items():
            if len(found) > 1:
                text = f"{each.mark} took {value} {len(found)} x"
                yield Violation(text, each.ids)


@verdict("answer overlooked", "a job that has its answer goes on")
def overlooked_answer(evidence: Evidence) -> Iterator[Violation]:
    faults = merged(
        Span(fault.began_at - 1, fault.ended_at + SETTLING) for fault in evidence.faults
    )
    given = defaultdict(list)
    for gift in evidence.gifts:
        given[gift.mark].append(gift)
    for each in successions(evidence):
        for gift in given[each.mark]:
            name = gift.value.partition(" ")[0]
            for job_id in each.taken.get(gift.value, each.ids):
                for period in evidence.periods(job_id, partial(waits_for, name)):
                    begin, end = span_of(period, evidence)
                    seconds = seconds_outside(faults, max(begin, gift.at), end)
                    if seconds > longest_wait(evidence) + LOOKS:
                        text = f"job {job_id} had {gift.value} for {seconds:.1f} s"
                        yield Violation(f"{text}, and waited", (job_id,))


def waits_for(kind: str, version: Version) -> bool:
    return (version.status, version.waiting_for) == ("WAITING", kind)


@verdict("wait over too early", "a wait lasts until its time is over")
def too_early(evidence: Evidence) -> Iterator[Violation]:
    ends = {}
    for effect in reversed(evidence.effects):
        if effect.what == f"{TOOK}answer {OVER}":
            ends[effect.job_id] = effect.at
    for each in successions(evidence):
        for job_id in ends.keys() & each.jobs.keys():
            periods = evidence.periods(job_id, partial(waits_for, "answer"))
            begin = min((one.begin.committed_at for one in periods), default=None)
            end = ends[job_id]
            seconds = end - (end if begin is None else begin)
            if seconds < SHORTEST_WAIT - EARLY and not has_other_clock(evidence, end):
                text = f"job {job_id} gave up its wait after {seconds:.1f} s"
                yield Violation(text, (job_id,))


def has_other_clock(evidence: Evidence, at: float) -> bool:
    """Whether the clock of the server was, or just had been, set otherwise."""
    return any(
        fault.kind == STEP[0] and fault.began_at - 1 <= at <= fault.ended_at + STEP[1]
        for fault in evidence.faults
    )


@verdict("succession ended twice", "a job that goes on as another one ends once")
def ended_twice(evidence: Evidence) -> Iterator[Violation]:
    for each in successions(evidence):
        gone_on = each.number(lambda version: version.has_gone_on)
        ended = each.number(
            lambda version: version.is_finished and not version.has_gone_on
        )
        if ended > 1 or len(each.jobs) != gone_on + 1:
            text = f"{each.mark} has {len(each.jobs)} jobs and {ended} ends"
            yield Violation(f"{text}; {gone_on} have gone on", each.ids)
