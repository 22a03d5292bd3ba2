"""Jobs that share calls: none is lost, and no innocent one pays for another."""

import pytest

from tests.model.chunks import SCOPES, Chunks
from tests.model.search import search

LEAST_STATES = 1_000


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_every_step_from_every_state_keeps_the_guarantees(scope):
    found = search(Chunks(scope))
    assert len(found.came_from) > LEAST_STATES
    for name, (state, label) in found.broken.items():
        pytest.fail(f"{name}: {[*found.path_to(state), label]}")
    assert {tuple(found.path_to(state)) for state in found.stuck} == set()


# Bugs


class CrashOfEach(Chunks):
    """Count the crash of a call for each of its jobs."""

    def counts_for_each(self):
        return 1


class WholeAgain(Chunks):
    """Let the jobs of a call that crashed share a call again."""

    def half_of(self, job):
        return None


class OneHalf(Chunks):
    """Put all jobs of a call into its first half."""

    def half_of(self, job):
        return (job.call, 0)


class TakesWhatRuns(Chunks):
    """Let a call take along what another worker runs."""

    def may_join(self, job, first):
        return job.status in ("READY", "RUNNING") and job.part == first.part


class TakesOtherHalves(Chunks):
    def may_join(self, job, first):
        return job.status == "READY"


class NoGuardOfCompanions(Chunks):
    """Record the others of a call without looking whose they are by now."""

    def counts_beside(self, job, body):
        return job.owner is not None


class HalfBesideOthers(Chunks):
    def has_room(self, state, worker, job):
        return True


BUGS = [
    (CrashOfEach, "two jobs", "a_crash_of_several_counts_for_none"),
    (WholeAgain, "two jobs", "a_crash_of_several_halves_them"),
    (OneHalf, "two jobs", "a_crash_of_several_halves_them"),
    (TakesWhatRuns, "two jobs", "a_call_takes_along_what_is_ready_and_of_its_half"),
    (TakesOtherHalves, "two jobs", "a_call_takes_along_what_is_ready_and_of_its_half"),
    (NoGuardOfCompanions, "two jobs", "only_members_of_the_call_are_recorded"),
    (HalfBesideOthers, "two jobs", "a_half_is_alone_in_its_worker"),
]


@pytest.mark.parametrize(("bug", "scope", "guarantee"), BUGS)
def test_bug_in_the_model_breaks_a_guarantee(bug, scope, guarantee):
    assert guarantee in search(bug(SCOPES[scope]), guarantee).broken
