"""The model keeps its guarantees in small scopes, and a bug in it is found."""

from functools import cache

import pytest

from tests.model.machine import DONE, MAX_CRASHES, Job, Machine, Scope, State
from tests.model.search import Found, search

SUCCESS_OR_RETRY = ("SUCCESS", "RETRY")
# Each has less of one thing than of another, so that it takes seconds.
SCOPES = {
    "three claims of a job": Scope(1, None, lives=1, claims=3),
    "two lives of a job": Scope(1, None, lives=2, claims=2, verdicts=("SUCCESS",)),
    "two jobs in a lock": Scope(
        2, 1, lives=1, claims=2, verdicts=SUCCESS_OR_RETRY, has_operators=False
    ),
    "operators at a lock": Scope(2, 1, 1, claims=1, verdicts=SUCCESS_OR_RETRY),
    "three jobs in a limit of two": Scope(
        3, 2, lives=1, claims=1, verdicts=("SUCCESS",), has_operators=False
    ),
    "a job that sleeps": Scope(1, None, 1, claims=3, verdicts=("SNOOZE", "RETRY")),
    "a job that sleeps in a lock": Scope(
        2, 1, lives=1, claims=1, verdicts=("SNOOZE", "RETRY")
    ),
    "two jobs that expire in a lock": Scope(
        2, 1, 1, claims=1, verdicts=("RETRY",), has_expiry=True
    ),
    "a job that waits": Scope(
        1, None, lives=1, claims=3, verdicts=("WAIT", "SUCCESS"), has_operators=False
    ),
    "a job that waits and is retried": Scope(
        1, None, lives=2, claims=1, verdicts=("WAIT", "SUCCESS", "RETRY")
    ),
    "two jobs that wait in a lock": Scope(
        2, 1, 1, claims=1, verdicts=("WAIT", "SUCCESS"), has_operators=False
    ),
}
LEAST_STATES = 5_000


@cache
def all_of(scope: Scope) -> Found:
    return search(Machine(scope))


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_every_step_from_every_state_keeps_the_guarantees(scope):
    found = all_of(scope)
    assert len(found.came_from) > LEAST_STATES
    for name, (state, label) in found.broken.items():
        pytest.fail(f"{name}: {[*found.path_to(state), label]}")


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_from_every_state_all_jobs_can_still_end(scope):
    found = all_of(scope)
    assert {tuple(found.path_to(state)) for state in found.stuck} == set()


# Bugs


class NoGuard(Machine):
    """Let a worker record the end of a job that another one runs."""

    def counts(self, job, body):
        return job.owner is not None


class GuardByOwner(Machine):
    """Leave the token out of what a record must name."""

    def counts(self, job, body):
        return job.owner == body.worker


class RescueWithoutFence(Machine):
    """Leave the token as it is, and let it be all that a record must name."""

    def token_of_rescue(self, state: State, job: Job) -> int:
        return job.token

    def counts(self, job, body):
        return job.token == body.token


class AttemptAsToken(Machine):
    """Take the number of the attempt for the token; it begins again in each life."""

    def token_of_claim(self, state, job):
        return job.attempts + 1

    def token_of_retry(self, job):
        return 0


class ClaimPastLock(Machine):
    def may_claim(self, state, job):
        return job.status in ("READY", "WAITING")


class PlaceForOneMore(Machine):
    """Count the jobs that run, and not those that are about to."""

    def places_taken(self, state):
        return sum(job.status == "RUNNING" for job in state.jobs)


class AdmissionThatOvertakes(Machine):
    """Let an admission claim, whatever is READY."""

    def may_skip_ready(self, state, job):
        return not job.is_expired and job.crashes + 1 < MAX_CRASHES


class AdmissionOfTheLastChance(Machine):
    """Let an admission claim what only a fetch for READY jobs lets run alone."""

    def may_skip_ready(self, state, job):
        return not job.is_expired


class SnoozeAsFailure(Machine):
    def counts_as_failure(self, verdict):
        return verdict in ("RETRY", "SNOOZE")


class ClaimOfExpired(Machine):
    def may_claim(self, state, job):
        return job.status == "READY"


class EndOfTheBegun(Machine):
    """Look at the time alone."""

    def may_expire(self, job):
        return job.expires != "never"


class LastInLineFirst(Machine):
    def first_of(self, waiting):
        return waiting[-1]


class DeafToCancel(Machine):
    def minds_cancel(self, job):
        return False


class RescueFromTheLiving(Machine):
    def rescues(self, state, number, job):
        all_silent = state._replace(is_beating=(False, False))
        for label, after in super().rescues(all_silent, number, job):
            yield label, after._replace(is_beating=state.is_beating)


class OrphansStay(Machine):
    """Forget what was claimed although the answer was lost."""

    def releases(self, state, number, job):
        return iter(())


class SecondAnswer(Machine):
    def may_answer(self, job):
        return job.answers < 2 and job.wait not in DONE


class StaleTake(Machine):
    """Let a body take an answer that belongs to another attempt by now."""

    def may_take(self, job, body):
        return job.status == "RUNNING"


class TimeBeforeAnswer(Machine):
    """Look at the time before looking for an answer."""

    def end_of_wait(self, job):
        return "over" if job.is_late else super().end_of_wait(job)


class AskedAgain(Machine):
    """Forget with a crash what the job has taken."""

    def rescues(self, state, number, job):
        for label, after in super().rescues(state, number, job):
            yield label, after.with_job(number, wait="")


class WaitInLine(Machine):
    """Let an admission take a job that waits for an answer."""

    def admissions(self, state):
        yield from super().admissions(state)
        for number, job in enumerate(state.jobs):
            if job.is_suspended:
                yield ("admit", number), state.with_job(number, status="READY")


class LookNobodyTakes(Machine):
    """Leave no note of an answer that came while the job was about to wait."""

    def wakes(self, state, number, job):
        return iter(())


BUGS = [
    (SecondAnswer, "a job that waits", "one_answer_counts"),
    (StaleTake, "a job that waits", "an_answer_is_taken_by_the_latest_claim"),
    (
        TimeBeforeAnswer,
        "a job that waits",
        "a_wait_that_has_its_answer_ends_with_it",
    ),
    (AskedAgain, "a job that waits", "a_wait_ends_once"),
    (
        WaitInLine,
        "two jobs that wait in a lock",
        "a_job_that_waits_runs_only_after_an_answer_or_in_time",
    ),
    (NoGuard, "three claims of a job", "only_the_latest_claim_is_recorded"),
    (GuardByOwner, "three claims of a job", "only_the_latest_claim_is_recorded"),
    (RescueWithoutFence, "three claims of a job", "an_attempt_is_recorded_once"),
    (AttemptAsToken, "two lives of a job", "only_the_latest_claim_is_recorded"),
    (
        ClaimPastLock,
        "two jobs in a lock",
        "no_more_run_than_their_limit_allows",
    ),
    (
        PlaceForOneMore,
        "three jobs in a limit of two",
        "no_more_run_than_their_limit_allows",
    ),
    (
        AdmissionThatOvertakes,
        "three jobs in a limit of two",
        "an_admission_that_claims_overtakes_no_ready_job",
    ),
    (
        AdmissionOfTheLastChance,
        "two jobs in a lock",
        "a_job_with_one_crash_left_is_claimed_from_ready_alone",
    ),
    (
        SnoozeAsFailure,
        "a job that sleeps",
        "only_an_error_counts_as_a_failure",
    ),
    (
        ClaimOfExpired,
        "two jobs that expire in a lock",
        "an_expired_job_does_not_begin",
    ),
    (
        EndOfTheBegun,
        "two jobs that expire in a lock",
        "a_job_that_has_begun_does_not_expire",
    ),
    (LastInLineFirst, "two jobs in a lock", "the_lowest_id_is_next"),
    (
        DeafToCancel,
        "three claims of a job",
        "what_was_asked_to_stop_does_not_run_again",
    ),
    (
        RescueFromTheLiving,
        "three claims of a job",
        "a_job_of_a_living_worker_is_not_taken_away",
    ),
]


@pytest.mark.parametrize(("bug", "scope", "guarantee"), BUGS)
def test_bug_in_the_model_breaks_a_guarantee(bug, scope, guarantee):
    assert guarantee in search(bug(SCOPES[scope]), guarantee).broken


def test_bug_that_leaves_a_job_behind_makes_it_stuck():
    scope = Scope(1, None, 1, claims=2, verdicts=("SUCCESS",), has_operators=False)
    assert not search(Machine(scope)).stuck
    assert search(OrphansStay(scope)).stuck


def test_answer_at_which_nobody_looks_leaves_its_job_stuck():
    scope = Scope(
        *(1, None, 1, 2),
        verdicts=("WAIT", "SUCCESS"),
        has_operators=False,
        has_timeouts=False,
    )
    assert not stuck_with_an_answer(Machine(scope))
    assert stuck_with_an_answer(LookNobodyTakes(scope))


def stuck_with_an_answer(machine: Machine) -> bool:
    return any(state.jobs[0].answers for state in search(machine).stuck)
