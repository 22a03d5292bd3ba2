"""What must hold in every state and at every step of the model."""

from collections.abc import Callable

from .machine import DONE, FINISHED, MAX_ATTEMPTS, MAX_CRASHES, QUEUED, Job, State

Guarantee = Callable[[State, tuple, State], bool]
GUARANTEES: list[Guarantee] = []


def guarantee(function: Guarantee) -> Guarantee:
    GUARANTEES.append(function)
    return function


def job_claimed(label: tuple) -> int | None:
    """Return which job a step claims, with an admission or without."""
    is_claim = label[0].removesuffix(" unheard") in ("claim", "admit and claim")
    return label[2] if is_claim else None


def job_admitted(label: tuple) -> int | None:
    return label[1] if label[0] == "admit" else job_skipping_ready(label)


def job_skipping_ready(label: tuple) -> int | None:
    return job_claimed(label) if label[0].startswith("admit and") else None


def changed(old: State, new: State) -> list[tuple[Job, Job]]:
    pairs = zip(old.jobs, new.jobs, strict=True)
    return [(before, after) for before, after in pairs if before != after]


@guarantee
def running_jobs_and_no_others_have_an_owner(old, label, new):
    return all((job.status == "RUNNING") == (job.owner is not None) for job in new.jobs)


@guarantee
def a_life_ends_once(old, label, new):
    """Only an operator's retry leads out of an end.

    That of a job before another one revives what was cancelled because of it.
    """
    return all(
        before.status not in FINISHED
        or after.life == before.life + 1
        or (label[0] == "retry" and before.status == "CANCELLED")
        for before, after in changed(old, new)
    )


@guarantee
def only_the_latest_claim_is_recorded(old, label, new):
    """Whatever arrives late belongs to the attempt that the job is in, or is void."""
    if not label[0].startswith("deliver") or old.jobs == new.jobs:
        return True
    _, worker, number, life, attempt, _ = label
    job = old.jobs[number]
    return (job.owner, job.life, job.attempts) == (worker, life, attempt)


@guarantee
def an_attempt_is_recorded_once(old, label, new):
    """No message changes a job that is not running."""
    if not label[0].startswith("deliver"):
        return True
    return all(before.status == "RUNNING" for before, _ in changed(old, new))


@guarantee
def tokens_never_go_back(old, label, new):
    return all(after.token >= before.token for before, after in changed(old, new))


@guarantee
def a_claim_has_a_token_of_its_own(old, label, new):
    number = job_claimed(label)
    if number is None:
        return True
    token = new.jobs[number].token
    used = {body.token for body in old.bodies}
    used |= {message.body.token for message in old.messages}
    return token not in used | {job.token for job in old.jobs}


@guarantee
def counters_stay_within_bounds(old, label, new):
    return all(
        job.failures <= min(MAX_ATTEMPTS, job.attempts)
        and job.crashes <= min(MAX_CRASHES, job.attempts)
        and (job.status == "FAILED" or job.crashes < MAX_CRASHES)
        for job in new.jobs
        if job.status != "CANCELLED"
    )


@guarantee
def what_was_asked_to_stop_does_not_run_again(old, label, new):
    return all(
        not (before.is_cancelled and after.life == before.life)
        or after.status not in QUEUED
        for before, after in changed(old, new)
    )


@guarantee
def a_job_of_a_living_worker_is_not_taken_away(old, label, new):
    if label[0] != "rescue":
        return True
    return not old.is_beating[old.jobs[label[1]].owner]


@guarantee
def only_an_error_counts_as_a_failure(old, label, new):
    return all(
        after.failures <= before.failures or label[-1] in ("RETRY", "FAIL")
        for before, after in changed(old, new)
    )


@guarantee
def an_expired_job_does_not_begin(old, label, new):
    number = job_claimed(label)
    return number is None or not old.jobs[number].is_expired


@guarantee
def an_admission_that_claims_overtakes_no_ready_job(old, label, new):
    is_skipping = job_skipping_ready(label) is not None
    return not (is_skipping and any(job.status == "READY" for job in old.jobs))


@guarantee
def a_job_with_one_crash_left_is_claimed_from_ready_alone(old, label, new):
    """Only a fetch for READY jobs lets it run alone in its process."""
    number = job_skipping_ready(label)
    return number is None or old.jobs[number].crashes + 1 < MAX_CRASHES


@guarantee
def a_job_that_has_begun_does_not_expire(old, label, new):
    return label[0] != "expire" or old.jobs[label[1]].attempts == 0


@guarantee
def one_answer_counts(old, label, new):
    return all(job.answers <= 1 for job in new.jobs)


@guarantee
def an_answer_is_taken_by_the_latest_claim(old, label, new):
    if label[0] != "take":
        return True
    _, worker, number, life, attempt = label
    job = old.jobs[number]
    return (job.owner, job.life, job.attempts) == (worker, life, attempt)


@guarantee
def a_wait_that_has_its_answer_ends_with_it(old, label, new):
    return all(not (job.wait == "over" and job.answers) for job in new.jobs)


@guarantee
def a_wait_ends_once(old, label, new):
    """Only another life may ask again."""
    return all(
        before.wait not in DONE
        or after.wait == before.wait
        or after.life == before.life + 1
        for before, after in changed(old, new)
    )


@guarantee
def a_job_that_waits_runs_only_after_an_answer_or_in_time(old, label, new):
    return all(
        not before.is_suspended
        or after.status not in ("READY", "RUNNING")
        or after.answers
        or after.is_late
        for before, after in changed(old, new)
    )


def no_more_than(most: int) -> Guarantee:
    """Only where the jobs share a lock or a limit."""

    def no_more_run_than_their_limit_allows(old, label, new):
        return sum(job.status in ("READY", "RUNNING") for job in new.jobs) <= most

    return no_more_run_than_their_limit_allows


def the_lowest_id_is_next(old, label, new):
    """Only where the jobs share a lock or a limit that keeps their order."""
    number = job_admitted(label)
    before = old.jobs[: number or 0]
    return all(job.status != "WAITING" or job.is_suspended for job in before)
