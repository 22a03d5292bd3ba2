"""The simulation of waits does what its few rules say, with costs that are round."""

import pytest

from benchmarks.simulation import costs
from benchmarks.simulation_model import GATHER, Parameters, Simulation, drain, waits

MILLISECOND = 0.001
FREE = Parameters(
    server_pass=0.0,
    server_job=0.0,
    worker_pass=0.0,
    worker_job=0.0,
    server_enqueue=0.0,
    application_enqueue=0.0,
    commits=[0.0],
    wake_ups=[0.0],
)


def test_a_drain_is_as_fast_as_the_lock_of_the_interpreter_allows():
    one = FREE._replace(worker_job=MILLISECOND)
    assert drain(one, 1_000).rate == pytest.approx(1_000, rel=0.01)
    assert drain(one._replace(workers=2), 1_000).rate == pytest.approx(2_000, rel=0.01)


def test_shards_are_faster_together_until_their_cores_are_used_up():
    one = FREE._replace(server_job=MILLISECOND)
    rates = [drain(one._replace(shards=each), 500).rate for each in (1, 2, 4)]
    assert rates == pytest.approx([1_000, 2_000, 2_000], rel=0.01)


def test_a_pass_commits_as_many_jobs_as_there_are_slots():
    one = FREE._replace(commits=[MILLISECOND])
    rate = drain(one._replace(slots=10), 1_000).rate
    # Before each of the commits that record, outcomes gather for a moment.
    assert rate == pytest.approx(1_000 / (101 * MILLISECOND + 100 * GATHER))


def test_the_loop_waits_until_the_slots_leave_the_interpreter_to_it():
    costs = {"worker_job": MILLISECOND / 10, "worker_pass": MILLISECOND}
    late = [0.0, MILLISECOND / 5]  # so that slots do not wake together
    drained = drain(FREE._replace(wake_ups=late, **costs), 1_000)
    assert drained.jobs_of_pass == 10


def test_commits_that_wait_for_the_disk_share_its_next_flush():
    simulation = Simulation(FREE._replace(commits=[MILLISECOND]))
    ended = []

    def commit(at):
        yield simulation.environment.timeout(at)
        yield from simulation.commit()
        ended.append(simulation.environment.now)

    for at in (0.0, 0.2 * MILLISECOND, 0.3 * MILLISECOND):
        simulation.environment.process(commit(at))
    simulation.environment.run()
    expected = [MILLISECOND, 2 * MILLISECOND, 2 * MILLISECOND]
    assert ended == pytest.approx(expected)


def test_a_job_for_an_idle_worker_waits_for_a_wake_up_of_each_that_takes_part():
    parameters = FREE._replace(wake_ups=[MILLISECOND], commits=[10 * MILLISECOND])
    seen = waits(parameters, rate=10, seconds=20, at_random=False)
    # The listening session, loop, session, loop and slot, less the application's own.
    assert seen.p50 == pytest.approx(10 + 5 - 1)
    assert seen.p99 == pytest.approx(seen.p50)


def test_jobs_wait_longer_the_more_of_the_cores_is_used():
    parameters = FREE._replace(server_job=MILLISECOND, cores=1)
    light, heavy = (waits(parameters, rate, 60) for rate in (200, 900))
    assert light.utilisation == pytest.approx(0.2, rel=0.2)
    assert heavy.utilisation == pytest.approx(0.9, rel=0.2)
    assert heavy.p50 > 2 * light.p50
    assert heavy.p99 > 2 * light.p99


def test_jobs_are_left_in_the_line_where_more_come_than_can_be_run():
    parameters = FREE._replace(server_job=MILLISECOND, cores=1)
    assert waits(parameters, 500, 20).left < 0.05
    assert waits(parameters, 2_000, 20).left == pytest.approx(0.5, rel=0.2)


def test_what_a_pass_costs_is_what_several_jobs_in_one_save():
    # A pass costs 400 us and a job 30: by one, and by ten.
    found = costs(single=430, several=70, passes=1, fewer=0.1)
    assert found == pytest.approx((400e-6, 30e-6))
