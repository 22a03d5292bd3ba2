"""The timeline of faults is decided by its seed alone."""

from itertools import pairwise

from chaos import happenings  # noqa: F401
from chaos.faults import FAULTS
from chaos.timeline import FIRST, KINDS, NAMES, timeline


def test_same_seed_gives_the_same_timeline():
    assert timeline(7, 600) == timeline(7, 600)


def test_other_seed_gives_another_timeline():
    assert timeline(7, 600) != timeline(8, 600)


def test_longer_run_begins_like_a_shorter_one():
    short = timeline(7, 100)
    assert timeline(7, 1_000)[: len(short)] == short


def test_every_kind_comes_before_any_comes_more_often_than_its_weight():
    number = sum(kind.weight for kind in KINDS)
    first_round = [fault.kind for fault in timeline(3, 1_000)[:number]]
    for kind in KINDS:
        assert first_round.count(kind.name) == kind.weight


def test_faults_follow_each_other_and_end_in_time():
    planned = timeline(5, 300)
    assert planned[0].at >= FIRST
    for earlier, later in pairwise(planned):
        assert earlier.at + earlier.seconds < later.at
    assert planned[-1].at + planned[-1].seconds < 300


def test_faults_last_as_long_as_their_kind_may():
    kinds = {kind.name: kind for kind in KINDS}
    for fault in timeline(11, 2_000):
        kind = kinds[fault.kind]
        assert kind.shortest <= fault.seconds <= kind.longest
        assert 0 <= fault.draw < 1


def test_only_the_chosen_kinds_come():
    chosen = [kind for kind in KINDS if kind.name == "deploy"]
    assert {fault.kind for fault in timeline(1, 100, chosen)} == {"deploy"}


def test_run_without_faults_is_possible():
    assert timeline(1, 100, []) == []


def test_every_kind_of_fault_is_known():
    assert set(NAMES) == set(FAULTS)
