"""Waits as a state machine: publishers, people and workers commit in any order.

Each of them has a session of its own, whose transaction stays open for as long as the
machine likes. So each statement of a worker may see, or not see, what the others do. In
the end nothing that counts is lost, and nothing is taken twice.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run

from pgjobs.features.durable import queue
from pgjobs.models import Answer, Event, Job, Step, Wait, WaitNote, Worker
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Unsuccessful
from pgjobs.sql import statement
from tests.actors import Hand, Session, execute
from tests.features.durable import bodies
from tests.support.declared import store_definitions

NAMES = ["first", "approval", "second"]  # what the task waits for, in order
PUBLISH = "SELECT pgjobs_publish('order.paid')"
ANSWER = "SELECT pgjobs_answer(%(id)s, 'approval', %(value)s)"


def ways_of(name: str) -> list[dict[str, Any]]:
    if name == "approval":
        return [{"kind": "answer", "label": None}]
    return [{"kind": "event", "label": None, "event": "order.*", "aggregate_id": None}]


class Actor:
    """Somebody with a session, and perhaps an open transaction."""

    def __init__(self) -> None:
        self.session = Session()
        self.is_open = False

    def begin(self, level: str = "READ COMMITTED") -> None:
        self.session.execute(f"BEGIN ISOLATION LEVEL {level}")
        self.is_open = True

    def end(self, commits: bool) -> None:
        self.session.execute("COMMIT" if commits else "ROLLBACK")
        self.is_open = False


class Waits(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for model in (Job, Event, Step, Wait, WaitNote, Answer, Worker):
            model.objects.all().delete()
        self.publishers = [Actor(), Actor()]
        self.people, self.recorder, self.waker = Actor(), Actor(), Actor()
        self.job: Job | None = None
        self.running: ClaimedJob | None = None
        self.asking = ""  # the wait that found nothing, until its record is committed
        self.hand = Hand()
        self.names = list(NAMES)
        self.is_true = False  # what the open answer was told
        self.told: list[bool] = []  # what committed answers were told
        self.counted = 0  # events that were committed and count

    # The application

    @precondition(lambda self: self.job is None)
    @rule(asks_first=st.booleans())
    def enqueue(self, asks_first: bool) -> None:
        self.job = bodies.plain.enqueue()
        self.names.sort(key=lambda name: (name == "approval") is not asks_first)

    @rule(
        number=st.integers(0, 1),
        level=st.sampled_from(["READ COMMITTED", "REPEATABLE READ"]),
    )
    def publish(self, number: int, level: str) -> None:
        actor = self.publishers[number]
        if not actor.is_open:
            actor.begin(level)
            actor.session.execute(PUBLISH)

    @precondition(lambda self: not self.publishers[0].is_open)
    @rule()
    def publish_alone(self) -> None:
        """In a transaction of its own, which wakes a job that it sees to wait."""
        self.publishers[0].session.execute(PUBLISH)
        self.counted += self.job is not None

    @rule(number=st.integers(0, 1), commits=st.booleans())
    def end_publishing(self, number: int, commits: bool) -> None:
        actor = self.publishers[number]
        if actor.is_open:
            actor.end(commits)
            self.counted += commits and self.job is not None

    @precondition(lambda self: self.job and not self.people.is_open)
    @rule()
    def answer(self) -> None:
        self.people.begin()
        value = {"id": self.job.pk, "value": json.dumps(len(self.told))}
        ((self.is_true,),) = self.people.session.execute(ANSWER, value)

    @precondition(lambda self: self.people.is_open)
    @rule(commits=st.booleans())
    def end_answering(self, commits: bool) -> None:
        self.people.end(commits)
        if commits:
            self.told.append(self.is_true)

    # The workers

    @rule()
    def run_a_stretch(self) -> None:
        """Claim the job, and go on to the first wait that finds nothing."""
        if self.asking or self.job is None:
            return
        if self.running is None:
            claimed = self.hand.claim()
            self.running = claimed[0] if claimed else None
        if self.running is not None:
            self.go_on()

    def go_on(self) -> None:
        job = self.running
        done = set(Step.objects.values_list("name", flat=True))
        for name in self.names:
            if name in done:
                continue
            ways, accepted = ways_of(name), None
            look = queue.take_wait(
                "default", job.id, job.lease_token, name, ways, accepted
            )
            if look.state == "offered":
                accepted = look.answer["id"]
                look = queue.take_wait(
                    "default", job.id, job.lease_token, name, ways, accepted
                )
            if look.state == "open":
                self.asking = name
                return
            assert look.state == "taken"
        self.hand.succeed(job)
        self.running = None

    @precondition(lambda self: self.asking and not self.recorder.is_open)
    @rule()
    def suspend(self) -> None:
        self.recorder.begin()
        self.suspend_in(self.recorder.session.execute)

    def suspend_in(self, run) -> None:
        name = self.asking
        ways = ways_of(name)
        outcome = Unsuccessful(
            self.running.id,
            self.running.lease_token,
            "SUSPEND",
            "",
            statement="suspend",
            stores={
                "name": name,
                "seconds": 3_600,
                "waiting_for": ways[0]["kind"],
                "ways": ways,
            },
        )
        parameters = {
            "worker_id": self.hand.id,
            "worker_name": "hand",
            "outcomes": json.dumps([outcome.as_json()]),
        }
        assert run(statement("suspend"), parameters)[0][1] == "WAITING"

    @precondition(lambda self: self.recorder.is_open)
    @rule(commits=st.booleans())
    def end_suspending(self, commits: bool) -> None:
        """A record that is rolled back is sent again, as after a lost connection."""
        self.recorder.end(commits)
        if commits:
            self.asking, self.running = "", None

    @precondition(lambda self: not self.waker.is_open)
    @rule(level=st.just("READ COMMITTED"))
    def wake(self, level: str) -> None:
        self.waker.begin(level)
        queue.wake(self.waker.session.execute)

    @precondition(lambda self: self.waker.is_open)
    @rule(commits=st.booleans())
    def end_waking(self, commits: bool) -> None:
        self.waker.end(commits)

    # The end

    def teardown(self) -> None:
        try:
            self.end_all()
            if self.job is not None:
                self.check()
        finally:
            for actor in (*self.publishers, self.people, self.recorder, self.waker):
                actor.session.connection.close()

    def end_all(self) -> None:
        """Commit what is open, and let workers do what is left to do."""
        for number in (0, 1):
            self.end_publishing(number, True)
        if self.people.is_open:
            self.end_answering(True)
        if self.recorder.is_open:
            self.end_suspending(True)
        if self.waker.is_open:
            self.end_waking(False)
        for _ in range(2 * len(NAMES) + 2):
            self.run_a_stretch()
            if self.asking:
                self.suspend_in(execute)
                self.asking, self.running = "", None
            execute(
                "UPDATE pgjobs_waitnote SET due_at = now()"
                # The deadline of a wait must not hide that a note is missing.
                " WHERE due_at < now() + interval '1 minute'"
            )
            queue.wake(execute)

    def check(self) -> None:
        taken = dict(Step.objects.values_list("name", "return_value"))
        events = [
            taken[name] for name in self.names if name in taken and name != "approval"
        ]
        assert len(set(events)) == len(events), "an event was taken twice"
        assert self.told.count(True) <= 1, "two answers were told that they count"
        has_answer = True in self.told
        if "approval" in taken:
            assert taken["approval"] == self.told.index(True)
        wanted, left = [], self.counted
        for name in self.names:  # one after the other
            if name == "approval":
                if not has_answer:
                    break
            elif left:
                left -= 1
            else:
                break
            wanted.append(name)
        assert sorted(taken) == sorted(wanted), (
            "something was lost, or came from nowhere"
        )
        self.job.refresh_from_db()
        assert self.job.status == (
            "SUCCESSFUL" if len(wanted) == len(self.names) else "WAITING"
        )


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_nothing_is_lost_or_taken_twice_whatever_commits_when():
    store_definitions()
    run(
        Waits,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def interleaved(*sequences: list[str]) -> Iterator[list[str]]:
    """Yield every order of the steps in which each sequence keeps its own."""
    if not any(sequences):
        yield []
    for number, sequence in enumerate(sequences):
        if sequence:
            rest = [*sequences[:number], sequence[1:], *sequences[number + 1 :]]
            for order in interleaved(*rest):
                yield [sequence[0], *order]


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
@pytest.mark.parametrize("comes", ["publish", "answer"])
def test_what_comes_while_a_job_begins_to_wait_is_found_in_every_order(comes):
    """The job has asked, found nothing, and is about to be suspended."""
    store_definitions()
    ends = "end_publishing" if comes == "publish" else "end_answering"
    for order in interleaved(
        [comes, ends], ["suspend", "end_suspending"], ["wake", "end_waking"]
    ):
        machine = Waits()
        machine.enqueue(asks_first=comes == "answer")
        machine.run_a_stretch()
        arguments = {
            "publish": (0, "READ COMMITTED"),
            "end_publishing": (0, True),
            "wake": ("READ COMMITTED",),
            "suspend": (),
            "answer": (),
        }
        for step in order:
            getattr(machine, step)(*arguments.get(step, (True,)))
        machine.teardown()
