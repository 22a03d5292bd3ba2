"""The benchmarks measure: at small sizes, for correctness and not for speed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from benchmarks import cases, catalogue, rounds, telemetry
from benchmarks.__main__ import BEGIN, END, main, with_tables
from benchmarks.comparison import as_table
from benchmarks.locks import WITHOUT_FLOW_CONTROL
from benchmarks.processes import cpu_seconds_of_tree
from benchmarks.report import as_json, as_markdown, conditions
from benchmarks.server import PREFIX, Unusable, refuse_remote, running_server
from tests import harness
from tests.actors import execute, hours, stored_statuses
from tests.processes import ROOT, database_url
from tests.tasks import noop

SMALL = cases.Sizes(
    rounds=1,
    singles=20,
    many=50,
    drain_seconds=0.02,
    pickups=5,
    pickup_rate=100,
    wake_ups=5,
    steady_seconds=0.05,
    idle_seconds=0.1,
    pinned_seconds=0.1,
    million=1_000,
    settling_seconds=0.1,
)
# The others differ from these only in numbers.
MANY_CASES = [
    *cases.QUICK,
    "wake-up",
    "idle",
    "bytes",
    "drain-backlog",
    "pickup-mixed",
    "pinned",
]

# Their figures may be zero: of statements, and of jobs that waited for too long.
NOTHING_HAPPENS = ["idle", "wake-up"]

# Uses a fifth of a second of processor time; says so, and waits for a line.
BUSY = """
import sys, time
while time.process_time() < 0.2:
    pass
print("busy", flush=True)
sys.stdin.readline()
"""
# Is as busy, and so is its child.
PARENT = """
import subprocess, sys, time
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=pipe, stdout=pipe)
child.stdout.readline()
while time.process_time() < 0.2:
    pass
for said in ("begun", "ended"):
    print("child has", said, flush=True)
    sys.stdin.readline()
    child.communicate()
"""


@pytest.fixture(scope="module")
def server():
    with running_server(harness.server_url()) as server:
        yield server


def test_what_is_measured_runs_as_an_ordinary_owner(server):
    url = server.create_database("own")
    try:
        with psycopg.connect(url) as own:
            own.execute("CREATE TABLE anything ()")
            assert own.info.parameter_status("is_superuser") == "off"
    finally:
        server.drop_database("own")


def test_a_server_is_refused_where_databases_cannot_be_made():
    with pytest.raises(Unusable, match="superuser"), running_server(database_url()):
        raise AssertionError("not reached")


def measured(server, systems, which):
    chosen = [catalogue.BY_NAME[name] for name in systems]
    results = rounds.run(chosen, which, SMALL, server)
    assert not results.failures
    assert not results.left_out
    return results


@pytest.mark.slow
def test_cases_measure_and_leave_no_database_behind(server):
    results = measured(server, ["bare-100"], MANY_CASES)
    run = as_json(conditions(server, SMALL, "test"), results)
    text = as_markdown(run)
    for case in MANY_CASES:
        ((figures,),) = results.figures[case].values()
        # Processor time is counted in hundredths of a second: here it may be none. A
        # job may start before the call that enqueues it has returned.
        waits = {
            name: value
            for name, value in figures.items()
            if name.endswith(" ms") and "enqueue" not in name
        }
        rates = [
            value
            for name, value in figures.items()
            if name not in waits and "CPU" not in name and "cores" not in name
        ]
        assert all(value > 0 for value in rates) or case in NOTHING_HAPPENS, figures
        assert all(-100 < value < 60_000 for value in waits.values()), figures
        assert cases.CASES[case].title in text
    assert "fsync = " in text
    assert as_markdown(json.loads(json.dumps(run))) == text
    left = server.connection.execute(
        "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX]
    ).fetchall()
    assert left == []


@pytest.mark.slow
def test_jobs_of_pgjobs_are_run_by_a_real_worker(server):
    results = measured(server, ["pgjobs-prefetch"], ["drain"])
    assert results.figures["drain"]["pgjobs-prefetch"][0]["jobs/s"] > 0


@pytest.mark.slow
def test_tasks_of_django_are_run_by_a_real_worker(server):
    results = measured(server, ["pgjobs-tasks"], ["enqueue", "drain"])
    assert results.figures["drain"]["pgjobs-tasks"][0]["jobs/s"] > 0


def test_processor_time_is_that_of_a_process_and_its_children():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, BUSY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        for said in ("child has begun\n", "child has ended\n"):
            assert parent.stdout.readline() == said
            assert cpu_seconds_of_tree(parent.pid) > 0.3, said
            parent.stdin.write("go on\n")
            parent.stdin.flush()


def test_ratios_are_those_of_the_same_round():
    results = rounds.Results(
        figures={
            "enqueue": {
                "bare-10": [{"jobs/s": 100.0}, {"jobs/s": 10.0}, None],
                "pgjobs": [{"jobs/s": 80.0}, {"jobs/s": 6.0}, {"jobs/s": 9.0}],
            }
        }
    )
    text = as_markdown(as_json({}, results))
    assert "| pgjobs | 9 (6-80) | 0.7 | 1 |" in text


def test_goals_are_read_from_the_figures():
    results = rounds.Results(
        figures={
            "drain": {
                "bare-10": [{"jobs/s": 100.0}],
                "procrastinate": [{"jobs/s": 7.0}],
                "django-ox": [{"jobs/s": 1.0}],
                "dj-queue": [{"jobs/s": 2.0}],
                "pgjobs": [{"jobs/s": 60.0}],
            }
        }
    )
    text = as_markdown(as_json({}, results))
    assert "| drain, strict / bare-10 | >= 0.6 | 0.6 | yes |" in text
    assert "| drain, strict / procrastinate | >= 10 | 8.57 | **no** |" in text
    assert "| drain, strict / best Django rival | >= 15 | 30 | yes |" in text
    assert "idle" not in text


def test_missed_goals_come_first():
    results = rounds.Results(
        figures={
            "idle": {"pgjobs": [{"statements/s": 0.7, "worker CPU %": 0.9}]},
        }
    )
    text = as_markdown(as_json({}, results))
    missed = text.index("| idle: worker CPU, % | <= 0.5 | 0.9 | **no** |")
    assert missed < text.index("| idle: statements/s | <= 1 | 0.7 | yes |")


def test_bytes_are_compared_with_the_rival_that_writes_least_of_those_that_keep_jobs():
    def wrote(log: float, table: float) -> list[dict[str, float]]:
        return [{"log bytes/job": log, "table bytes/job": table}]

    results = rounds.Results(
        figures={
            "bytes": {
                "pgjobs": wrote(900, 600),
                "pgqueuer": wrote(300, 50),  # deletes jobs
                "django-ox": wrote(1_500, 400),
                "procrastinate": wrote(2_000, 500),
            }
        }
    )
    text = as_markdown(as_json({}, results))
    rivals = "best rival that keeps finished jobs"
    assert f"| bytes of the log / {rivals} | <= 0.7 | 0.6 | yes |" in text
    assert f"| bytes of the table / {rivals} | <= 0.7 | 1.5 | **no** |" in text


def test_report_says_where_rivals_are_faster():
    results = rounds.Results(
        figures={
            "drain": {
                "bare-10": [{"jobs/s": 100.0}],
                "pgjobs": [{"jobs/s": 20.0}],
                "pgjobs-prefetch": [{"jobs/s": 60.0}],
                "graphile": [{"jobs/s": 30.0}],
                "graphile-batching": [{"jobs/s": 90.0}, None],
            },
            "pickup": {"pgjobs": [{"p50 ms": 1.0}], "huey": [{"p50 ms": -0.1}]},
            "enqueue": {"pgjobs": [{"jobs/s": 2.0}], "rq": [{"jobs/s": 1.0}]},
        }
    )
    text = as_markdown(as_json({}, results))
    assert "(jobs/s): pgjobs-prefetch 60; graphile-batching 90." in text
    assert "(p50 ms): pgjobs 1; huey -0.1." in text
    assert text.count("; rq") == 0


def test_tables_of_an_earlier_run_are_put_between_the_marks_of_a_text(tmp_path):
    results = rounds.Results(figures={"drain": {"pgjobs": [{"jobs/s": 60.0}]}})
    stored, text = tmp_path / "results.json", tmp_path / "text.md"
    stored.write_text(json.dumps(as_json({"python": "3.13"}, results)))
    text.write_text(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n")
    for _ in range(2):
        assert main(["render", str(stored), "--into", str(text)]) == 0
    rendered = text.read_text()
    assert rendered.startswith("Before.\n") and rendered.endswith("\nAfter.\n")
    assert "| pgjobs | 60 | 1 |" in rendered
    assert "old" not in rendered


def test_published_tables_are_those_of_the_stored_run():
    run = json.loads(Path("benchmarks/results/performance.json").read_text())
    text = Path("docs/performance.md").read_text()
    assert as_markdown(run) in text


def test_published_comparison_is_that_of_the_stored_run():
    run = json.loads(Path("benchmarks/results/performance.json").read_text())
    text = Path("docs/comparison.md").read_text()
    assert with_tables(text, as_table(run)) == text


def test_cases_leave_out_who_cannot_take_part_in_them_and_the_report_says_so():
    every = catalogue.SYSTEMS
    names = {
        case: [each.name for each in rounds.concerned(case, every)]
        for case in cases.CASES
    }
    assert names["enqueue"][:4] == ["bare-10", "bare-insert", "pgjobs", "pgjobs-tasks"]
    assert names["drain"] == [each.name for each in every if each.works]
    assert names["pickup-10m"] == ["bare-10", "pgjobs"]
    assert "rq" not in names["pinned"]
    assert "pgqueuer-100" in names["pinned"]
    results = rounds.Results(
        figures={
            case: {name: [{"p50 ms": 1.0}] for name in names[case]}
            for case in ["pickup", "pickup-10m", "pinned"]
        }
    )
    text = as_markdown(as_json({}, results))
    assert "Not measured: procrastinate, " in text
    assert (
        "Not measured: the rivals (pgjobs and bare SQL alone have this case)." in text
    )


@pytest.mark.slow
def test_system_that_cannot_be_installed_is_reported_and_left_out(server, monkeypatch):
    def refuse(system):
        raise rounds.NotInstalled("no such package")

    monkeypatch.setattr(rounds, "install", refuse)
    results = rounds.run([catalogue.BY_NAME["huey"]], ["drain"], SMALL, server)
    assert results.figures == {}
    text = as_markdown(as_json({}, results))
    assert "**huey** is left out: no such package" in text


@pytest.mark.slow
def test_worker_that_ends_is_a_failure_and_no_figure(server):
    broken = catalogue.System("broken", "bare_sql", 100, "without a batch")
    results = rounds.run([broken], ["drain"], SMALL, server)
    assert results.figures == {"drain": {"broken": [None]}}
    (failure,) = results.failures
    assert "KeyError: 'batch'" in failure


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db.example.org/shop",
        "postgresql://localhost,10.1.2.3/shop",
        "postgresql:///shop?host=192.168.0.1",
    ],
)
def test_database_elsewhere_is_refused_unless_it_is_meant(url):
    with pytest.raises(Unusable, match="--allow-remote"):
        refuse_remote(url, allow_remote=False)
    refuse_remote(url, allow_remote=True)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/shop",
        "postgresql://127.0.0.1:5433/shop",
        "postgresql://%2Ftmp%2Fserver/shop",
        "postgresql://[::1]/shop",
    ],
)
def test_database_here_is_taken(url):
    refuse_remote(url, allow_remote=False)


def test_command_line_refuses_a_database_elsewhere(monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example.org/shop")
    assert main(["quick"]) == 2
    assert "--allow-remote" in capsys.readouterr().err


def test_command_line_names_the_systems_that_there_are():
    command = [sys.executable, "-m", "benchmarks", "run", "--systems", "celeryy"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown: celeryy" in done.stderr
    assert "procrastinate" in done.stderr


@pytest.mark.django_db
def test_each_part_of_telemetry_is_measured():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "telemetry",
            "--jobs",
            "20",
            "--rounds",
            "1",
        ],
        env={**os.environ, "DATABASE_URL": harness.server_url()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split(" | ")[0][2:] for line in done.stdout.splitlines()[2:]]
    assert shown == list(telemetry.PARTS)
    page = (ROOT / "docs/telemetry.md").read_text()
    assert [part for part in telemetry.PARTS if f"| {part} |" not in page] == []


@pytest.mark.django_db
def test_table_without_flow_control_still_takes_plain_jobs():
    execute(WITHOUT_FLOW_CONTROL)
    noop.enqueue()
    noop.using(run_after=hours(1)).enqueue()
    assert stored_statuses() == ["READY", "SCHEDULED"]
