"""Jobs that go on while others answer or enqueue, in every order of commits."""

import json

import pytest
from psycopg.errors import LockNotAvailable

from pgjobs.features.durable import queue
from pgjobs.models import Answer, Job, Predecessor, Step, Wait
from pgjobs.queue import recording
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Unsuccessful
from tests.actors import Hand, Session, admit, execute, session
from tests.features.durable import bodies
from tests.machines.test_wait_machine import interleaved
from tests.processes import wait_for
from tests.support.declared import store_definitions

pytestmark = pytest.mark.django_db(
    transaction=True, available_apps=["pgjobs", "tests", "tests.features.durable"]
)
SHORT = {"options": "-c lock_timeout=30ms"}
ANSWER = "SELECT pgjobs_answer(%(id)s, 'question', %(value)s)"
ANSWERED = [{"kind": "answer", "label": None}]


def outcome_of(job: ClaimedJob, number: int = 1) -> Unsuccessful:
    stores = {"args": "[]", "kwargs": json.dumps({"number": number}), "keys": {}}
    return Unsuccessful(
        job.id, job.lease_token, "SUSPEND", "", statement="continue_as", stores=stores
    )


def go_on(hand: Hand, job: ClaimedJob, run=execute) -> list[tuple[int, str]]:
    return recording.record(run, hand.id, "hand", [outcome_of(job)])


class Act:
    """A statement in a transaction of its own, which another one may hold up.

    Then it is undone, and done again when the others have committed: as if it had
    waited for them.
    """

    def __init__(self, at: Session, do) -> None:
        self.session = at
        self.do = do
        self.returned = None
        self.is_done = False

    def begin(self) -> None:
        self.session.begin()
        try:
            self.returned = self.do(self.session.execute)
            self.is_done = True
        except LockNotAvailable:
            self.session.rollback()

    def commit(self) -> None:
        if self.is_done:
            self.session.commit()

    def end(self) -> None:
        if not self.is_done:
            self.begin()
            assert self.is_done
            self.session.commit()


def run_in_order(order: list[str], acts: dict[str, Act]) -> None:
    for step in order:
        name, _, what = step.partition(" ")
        getattr(acts[name], what)()
    for act in acts.values():
        act.end()


def steps(name: str) -> list[str]:
    return [f"{name} begin", f"{name} commit"]


def clear() -> None:
    for model in (Job, Answer, Wait, Step, Predecessor):
        model.objects.all().delete()
    execute("DELETE FROM pgjobs_waitnote")


def test_two_answers_to_the_old_id_and_the_successor_gets_the_one_that_was_told():
    store_definitions()
    hand = Hand()
    with session(**SHORT) as one, session(**SHORT) as two, session(**SHORT) as recorder:
        for order in interleaved(*map(steps, ["one", "two", "on"])):
            clear()
            old = bodies.numbered.enqueue()
            job = hand.claim_one()

            def answering(value, id=old.pk):
                return lambda run: run(ANSWER, {"id": id, "value": value})[0][0]

            acts = {
                "one": Act(one, answering("1")),
                "two": Act(two, answering("2")),
                "on": Act(recorder, lambda run, job=job: go_on(hand, job, run)),
            }
            run_in_order(order, acts)
            told = [acts[name].returned for name in ("one", "two")]
            assert sorted(told) == [False, True], order
            successor = hand.claim_one()
            answer = Answer.objects.get()
            look = queue.take_wait(
                "default",
                successor.id,
                successor.lease_token,
                "question",
                ANSWERED,
                answer.pk,
            )
            assert (look.state, look.stored) == ("taken", str(told.index(True) + 1))


@pytest.mark.parametrize("is_first", [True, False])
def test_job_that_comes_while_its_predecessor_goes_on_waits_for_the_successor(is_first):
    store_definitions()
    hand = Hand()
    behind = "INSERT INTO pgjobs_job (task, keys) VALUES ('durable.child', %(keys)s)"
    with (
        session(**SHORT) as producer,
        session(**SHORT) as recorder,
        session(**SHORT) as admission,
    ):
        for order in interleaved(*map(steps, ["come", "on", "admit"])):
            clear()
            old = bodies.numbered.enqueue()
            if not is_first:
                bodies.child.using(after=[old]).enqueue(1)
            job = hand.claim_one()
            keys = {"keys": json.dumps({"after": [old.pk], "needs": "success"})}
            acts = {
                "come": Act(producer, lambda run, keys=keys: run(behind, keys)),
                "on": Act(recorder, lambda run, job=job: go_on(hand, job, run)),
                "admit": Act(admission, lambda run: admit(run, sweeps=False)),
            }
            run_in_order(order, acts)
            admit(sweeps=False)
            admit(sweeps=False)
            later = Job.objects.filter(task="durable.child")
            assert {job.status for job in later} == {"WAITING"}, order
            newest = old.newest()
            links = Predecessor.objects.filter(is_open=True)
            assert {link.predecessor_id for link in links} == {newest.pk}, order
            assert {link.job_id for link in links} == {job.pk for job in later}
            hand.succeed(hand.claim_one())

            def are_let_go(later=later) -> bool:
                admit(sweeps=False)
                return {job.status for job in later.all()} == {"READY"}

            wait_for(are_let_go, f"they are let go: {order}")


def test_unique_key_is_held_all_the_time():
    store_definitions()
    hand = Hand()
    task = bodies.numbered.using(unique_key="one")
    taken = (
        "INSERT INTO pgjobs_job (task, unique_key, unique_for) "
        "VALUES ('durable.numbered', 'one', 'unfinished') ON CONFLICT DO NOTHING "
        "RETURNING id"
    )
    with session(**SHORT) as producer, session(**SHORT) as recorder:
        for order in interleaved(steps("on"), steps("take")):
            clear()
            old = task.enqueue()
            job = hand.claim_one()
            acts = {
                "on": Act(recorder, lambda run, job=job: go_on(hand, job, run)),
                "take": Act(producer, lambda run: run(taken)),
            }
            run_in_order(order, acts)
            assert acts["take"].returned == []
            assert old.newest().unique_key == "one"


def test_record_that_is_rolled_back_leaves_the_job_to_its_worker():
    store_definitions()
    hand = Hand()
    old = bodies.numbered.enqueue()
    job = hand.claim_one()
    with session() as recorder:
        recorder.begin()
        assert go_on(hand, job, recorder.execute)[0].status == "CONTINUED"
        recorder.rollback()
    assert Job.objects.get().status == "RUNNING"
    assert go_on(hand, job) == [(job.lease_token, "CONTINUED")]
    assert Job.objects.count() == 2
    # Its answer was lost: the worker asks, and does not store it again.
    assert go_on(hand, job) == []
    before = recording.recorded_before(execute, [outcome_of(job)])
    assert before == [(job.lease_token, "CONTINUED")]
    assert old.newest().status == "READY"


def test_worker_that_has_lost_the_job_makes_no_successor():
    store_definitions()
    hand, other = Hand(), Hand("other")
    bodies.numbered.enqueue()
    job = hand.claim_one()
    assert go_on(other, job) == []
    hand.set_back(job, "RELEASE")
    assert go_on(hand, job) == []
    assert Job.objects.count() == 1
