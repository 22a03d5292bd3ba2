"""The checker knows what a job that waits may take, and how often it ends."""

from chaos.checker.evidence import EffectRow, Evidence, FaultRow, GiftRow
from tests.chaos.histories import OPERATOR, Story, broken

LOOP = "pgjobs:loop:a.1"
GIFT = GiftRow("mark-1", "answer 7:1/1", 104.5)


def waited(story: Story, **other) -> Evidence:
    """Let a job wait for an answer, which comes, take it, and go on as another."""
    story.enqueue(1, task="project.waits")
    story.claim(1)
    story.write(1, LOOP, status="WAITING", waiting_for="answer", worker_id=None)
    story.time += 1
    story.write(1, LOOP, status="READY", waiting_for=None)
    story.claim(1)
    story.succeed(1, has_gone_on=True)
    story.write(2, LOOP, task="project.waits", mark="mark-1", first_id=1)
    story.claim(2)
    story.succeed(2)
    given = story.evidence(**{"gifts": [GIFT], **other})
    effects = [EffectRow(1, 1, 2, "took answer 7:1/1", 107.0)]
    return given if "effects" in other else with_effects(given, *effects)


def with_effects(evidence: Evidence, *effects: EffectRow) -> Evidence:
    evidence.effects += effects
    return evidence


def test_job_that_takes_its_answer_and_goes_on_as_another_is_fine(story):
    assert broken(waited(story)) == set()


def test_answer_that_nobody_took_is_noticed(story):
    lost = GiftRow("mark-1", "answer 8:1/1", 106.5)
    assert broken(waited(story, gifts=[GIFT, lost])) == {"answer lost"}


def test_answer_of_a_job_that_an_operator_has_ended_is_not_missed(story):
    lost = GiftRow("mark-1", "answer 8:1/1", 106.5)
    found = waited(story, gifts=[lost])
    found.versions[-1] = found.versions[-1]._replace(actor=OPERATOR)
    assert "answer lost" not in broken(found)


def test_answer_that_a_job_takes_and_its_successor_takes_again_is_noticed(story):
    again = EffectRow(2, 1, 1, "took answer 7:1/1", 109.0)
    assert broken(with_effects(waited(story), again)) == {"answer taken twice"}


def test_wait_that_ends_with_two_answers_is_noticed(story):
    other = EffectRow(1, 1, 2, "took answer 9:1/1", 107.5)
    assert broken(with_effects(waited(story), other)) == {"answer taken twice"}


def test_event_that_two_waits_of_one_job_take_is_noticed(story):
    effects = [EffectRow(1, 1, 2, f"took {name} 5") for name in ("first", "second")]
    assert broken(with_effects(waited(story), *effects)) == {"answer taken twice"}


def overlooking(story: Story, **other) -> Evidence:
    """Let a job that waits have its answer for a minute."""
    story.enqueue(1, task="project.waits")
    story.claim(1)
    story.write(1, LOOP, status="WAITING", waiting_for="answer", worker_id=None)
    story.time += 60
    story.write(1, LOOP, status="READY", waiting_for=None)
    story.claim(1)
    story.succeed(1)
    effect = EffectRow(1, 1, 2, "took answer 7:1/1", story.time)
    return with_effects(story.evidence(gifts=[GIFT], **other), effect)


def test_job_that_waits_on_although_its_answer_is_there_is_noticed(story):
    assert broken(overlooking(story)) == {"answer overlooked"}


def test_job_that_waits_on_while_faults_last_is_not_overlooked(story):
    fault = FaultRow("kill all workers for a while", 104.0, 160.0)
    assert broken(overlooking(story, faults=[fault])) == set()


def gives_up(story: Story, after: float) -> Evidence:
    story.enqueue(1, task="project.waits")
    story.claim(1)
    begin = story.write(1, LOOP, status="WAITING", waiting_for="answer", worker_id=None)
    story.write(1, LOOP, status="READY", waiting_for=None)
    story.claim(1)
    story.succeed(1)
    effect = EffectRow(1, 1, 2, "took answer None", begin.committed_at + after)
    return with_effects(story.evidence(), effect)


def test_wait_that_ends_before_its_time_is_noticed(story):
    assert broken(gives_up(story, 0.5)) == {"wait over too early"}


def test_wait_that_ends_at_its_time_is_fine(story):
    assert broken(gives_up(story, 1.2)) == set()


def test_succession_with_two_ends_is_noticed(story):
    found = waited(story)
    found.versions = [each._replace(has_gone_on=False) for each in found.versions]
    assert broken(found) == {"succession ended twice"}


def test_job_that_goes_on_as_none_is_noticed(story):
    found = waited(story)
    found.versions = [each for each in found.versions if each.job_id == 1]
    assert "succession ended twice" in broken(found)


def suspended_after_a_crash(story: Story, status: str) -> Evidence:
    story.enqueue(1, task="project.waits")
    story.claim(1)
    story.rescue(1)
    story.claim(1)
    story.write(1, LOOP, status=status, worker_id=None, crashes=0)
    return story.evidence()


def test_job_that_waits_may_count_its_crashes_anew(story):
    found = suspended_after_a_crash(story, "WAITING")
    assert "illegal transition" not in broken(found)


def test_job_that_neither_sleeps_nor_waits_keeps_its_crashes(story):
    assert "illegal transition" in broken(suspended_after_a_crash(story, "READY"))
