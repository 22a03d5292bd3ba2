"""What benchmarks say about their figures, and what they measure them on."""

import os
import subprocess
import sys
from dataclasses import fields
from datetime import timedelta

import pytest

from benchmarks import capacity, steady
from benchmarks.report import as_json, as_markdown
from benchmarks.rounds import Results
from benchmarks.workers import spread
from pgjobs.models import Schedule
from tests import harness
from tests.processes import ROOT

# A server elsewhere: its process is not among those of this machine.
CAPACITY_OF_A_SERVER_ELSEWHERE = """
import sys
from benchmarks import capacity, steady
capacity.Server.pid = None
capacity.main(10, sys.argv[1])
"""


@pytest.mark.django_db
def test_schedules_of_the_benchmark_stay_spread_over_each_minute():
    spread(4, task="any")
    for schedule in Schedule.objects.filter(task="any"):
        first, second = schedule.next_runs(2)
        assert second - first == timedelta(minutes=1), schedule.name


def tables_of(figures: dict) -> str:
    """Return the tables of a run with these figures."""
    return as_markdown(as_json({}, Results(figures=figures)))


@pytest.mark.parametrize("case", ["drain", "drain-two", "drain-four"])
def test_worker_of_several_processes_makes_no_loss_look_smaller(case):
    text = tables_of(
        {
            case: {
                "pgjobs-prefetch": [{"jobs/s": 60.0}],
                "pgjobs-2": [{"jobs/s": 80.0}],
                "graphile-batching": [{"jobs/s": 90.0}],
                "graphile": [{"jobs/s": 70.0}],
            }
        }
    )
    assert "(jobs/s): pgjobs-prefetch 60; graphile 70, graphile-batching 90." in text


def test_goal_that_another_one_may_replace_names_it():
    two = {"jobs/s": 70.0, "server cores": 0.97}
    text = tables_of(
        {"drain": {"pgjobs-prefetch": [{"jobs/s": 60.0}], "pgjobs-2": [two]}}
    )
    other = "drain, 2 processes: cores that the server uses"
    assert f'| drain, 2 processes / one (or the goal "{other}") | >= 1.5 |' in text
    assert f"| {other} | >= 0.95 | 0.97 | yes |" in text


def test_processor_time_of_the_server_is_judged_for_several_workers_too():
    cases = {"drain": 19.0, "drain-two": 44.0, "drain-four": 47.0}
    text = tables_of(
        {
            case: {"pgjobs-prefetch": [{"server CPU us/job": value}]}
            for case, value in cases.items()
        }
    )
    assert "| drain, prefetch: server CPU, us/job | <= 20 | 19 | yes |" in text
    for workers, value in ((2, 44), (4, 47)):
        goal = f"drain, prefetch, {workers} workers: server CPU, us/job"
        assert f"| {goal} | <= 20 | {value} | **no** |" in text


@pytest.mark.slow
@pytest.mark.django_db
def test_capacity_says_what_it_cannot_know_of_a_server_elsewhere():
    done = subprocess.run(
        [sys.executable, "-c", CAPACITY_OF_A_SERVER_ELSEWHERE, harness.server_url()],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "not known" in line]
    assert [row.split("  ")[0] for row in rows[:2]] == ["enqueue_many", "prune"]
    assert any("--prefetch" in row for row in rows)
    assert "no model" in done.stdout
    assert "cores of servers" not in done.stdout


def test_model_of_capacity_foresees_what_each_rate_needs(capsys):
    job = capacity.Cost(here=108, server=172, wal=1_424)
    capacity.print_model(job, sessions=3)
    printed = capsys.readouterr().out
    assert "172 us of the server and 108 us of a worker" in printed
    for row in (
        "| 10 | 0.0034 | 0.014 | 1 | 1 | 13 |",
        "| 1,000 | 0.34 | 1.4 | 1 | 1 | 13 |",
        "| 10,000 | 3.4 | 14 | 1 | 3 | 39 |",
        "| 100,000 | 34 | 142 | 2 | 22 | 286 |",
        "| 1,000,000 | 344 | 1,424 | 11 | 216 | 2,808 |",
    ):
        assert row in printed


def window(**figures) -> steady.Window:
    """Return half a minute in which all figures are zero but for these."""
    zero = {field.name: 0 for field in fields(steady.Window)} | {"heap": 1}
    return steady.Window(**zero | {"phase": "steady"} | figures)


def test_pruning_is_a_share_of_statements_and_vacuum_one_of_processor_time():
    text = steady.summary(
        [
            window(prune=0.1, statements=30.0, vacuum=0.02, server=0.1),
            window(prune=0.2, statements=10.0, vacuum=0.08, server=0.2),
        ]
    )
    assert "prune 12.5% of the time of statements;" in text
    assert "vacuum 6.0% of the server's processor time;" in text
    assert "server 0.150 cores;" in text


def test_what_a_server_does_not_tell_is_no_zero():
    unknown = window(prune=None, vacuum=None, server=None)
    text = steady.summary([unknown])
    assert "prune not known;" in text
    assert "vacuum not known;" in text
    assert "server not known;" in text
    assert str(unknown).split()[-4:] == ["-", "0.000", "-", "-"]
