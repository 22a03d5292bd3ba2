"""A standby takes over: workers find it, and nothing that it lost leaves a trace."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chaos.pair import Pair
from chaos.server import OWNER, Unusable
from tests import tasks
from tests.processes import ROOT, SOON, WorkerProcess, wait_for

pytestmark = pytest.mark.slow

MEGABYTES = 700
CHILD = "tests.noop"


@contextmanager
def running_pair(is_synchronous: bool) -> Iterator[Pair]:
    """Start a primary and a standby, both with our tables."""
    try:
        pair = Pair(MEGABYTES, is_synchronous)
    except Unusable as error:
        pytest.skip(str(error))
    try:
        pair.start()
        pair.make_owner()
        migrate(pair)
        yield pair
    finally:
        pair.remove()


@pytest.fixture(params=["synchronous", "asynchronous"])
def pair(request):
    with running_pair(request.param == "synchronous") as pair:
        yield pair


def environment(pair) -> dict[str, str]:
    """Return what lets a process connect to whichever of the two takes writes."""
    both = {
        "HOST": "127.0.0.1,127.0.0.1",
        "PORT": pair.ports,
        "USER": OWNER,
        "PASSWORD": pair.password,
        "NAME": "postgres",
        "OPTIONS": {"target_session_attrs": "read-write"},
    }
    return {
        "PGJOBS_TEST_CONNECTING": json.dumps(both),
        "PGJOBS_TEST_POOLER": "",
        "DATABASE_URL": pair.primary.url(),
    }


def migrate(pair) -> None:
    command = [sys.executable, "-m", "django", "migrate", "pgjobs", "-v", "0"]
    own = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'example_project'}",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PGJOBS_IN_TEST_PROCESS": "1",
    }
    own = {**os.environ, **environment(pair), **own}
    subprocess.run(command, check=True, timeout=60, cwd=ROOT, env=own)


@pytest.fixture
def start(pair):
    """Start a worker that knows both servers."""
    started = []

    def start(*arguments: str, **how):
        how = {"settings": {"TASK_MODULES": ["tests.failover.bodies"]}, **how}
        worker = WorkerProcess(*arguments, **environment(pair), **how)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
        worker.log.close()


def job_on(pair, name: str, **kwargs) -> int:
    query = "INSERT INTO pgjobs_job (task, kwargs) VALUES (%s, %s) RETURNING id"
    with pair.connect() as own:
        return own.execute(query, [name, json.dumps(kwargs)]).fetchone()[0]


def state_of(pair, id: int) -> tuple:
    query = "SELECT status, attempts, failures, crashes FROM pgjobs_job WHERE id = %s"
    with pair.connect() as own:
        return own.execute(query, [id]).fetchone()


def children(pair) -> int:
    with pair.connect() as own:
        query = "SELECT count(*) FROM pgjobs_job WHERE kwargs ? 'child_of'"
        return own.execute(query).fetchone()[0]


def lose_primary(pair) -> None:
    """Lose the primary in a moment, and all that its standby has not yet heard."""
    pair.lose_primary(pair.pause_replication())


def test_workers_and_what_wakes_them_move_to_the_new_primary(pair, start, tmp_path):
    path = str(tmp_path / "lines")
    worker = start("--poll", "600")
    before = job_on(pair, "tests.note", path=path, line="before")
    wait_for(lambda: state_of(pair, before)[0] == "SUCCESSFUL")
    lose_primary(pair)
    pair.take_over()
    after = job_on(pair, "tests.note", path=path, line="after")
    wait_for(lambda: state_of(pair, after)[0] == "SUCCESSFUL")
    wait_for(lambda: pair_listens(pair), "it listens there")
    prompt = job_on(pair, "tests.note", path=path, line="prompt")
    wait_for(lambda: state_of(pair, prompt)[0] == "SUCCESSFUL", timeout=SOON)
    assert tasks.lines(path) == ["before", "after", "prompt"]
    assert worker.stop() == 0


def pair_listens(pair) -> bool:
    query = (
        "SELECT 1 FROM pg_stat_activity JOIN pg_locks USING (pid)"
        " WHERE application_name LIKE 'pgjobs:listen:%' AND classid = 1885825646"
    )
    with pair.connect() as own:
        return own.execute(query).fetchone() is not None


@pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
def test_job_whose_data_was_lost_with_the_primary_runs_again(pair, start, tmp_path):
    """Its child was committed on the old primary only, its success on the new one."""
    path = str(tmp_path / "lines")
    start("--poll", "0.2", "--concurrency", "2")
    id = job_on(pair, "bodies.enqueue_and_hold", path=path)
    wait_for(lambda: tasks.lines(path), "it runs")
    sender = pair.pause_replication()
    tasks.let_go(path + ".begin")
    # Not the child's row: that shows before the body has the answer to its COMMIT.
    wait_for(lambda: len(tasks.lines(path)) == 2, "the child is committed")
    assert children(pair) == 1
    pair.lose_primary(sender)
    pair.take_over()
    assert children(pair) == 0, "the standby knew the child, so that nothing is tested"
    tasks.let_go(path)
    wait_for(lambda: state_of(pair, id)[0] == "SUCCESSFUL")
    assert state_of(pair, id) == ("SUCCESSFUL", 2, 0, 0)
    assert children(pair) == 1


@pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
def test_worker_takes_no_attempt_of_the_lost_server_for_a_new_one(
    pair, start, tmp_path
):
    """Of the claim on the old primary the new one knows nothing, not even its token."""
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    start("--poll", "0.2", "--concurrency", "2")
    sender = pair.pause_replication()
    lost = job_on(pair, "tests.hold", path=old)
    wait_for(lambda: tasks.lines(old), "the job that is lost runs")
    pair.lose_primary(sender)
    pair.take_over()
    id = job_on(pair, "tests.hold", path=new)
    assert id == lost, "the standby knew the job, so that nothing is tested"
    wait_for(lambda: tasks.lines(new), "the new job runs")
    end_and_record(pair, old)
    assert state_of(pair, id) == ("RUNNING", 1, 0, 0)
    tasks.let_go(new)
    wait_for(lambda: state_of(pair, id)[0] == "SUCCESSFUL")
    assert state_of(pair, id) == ("SUCCESSFUL", 1, 0, 0)


@pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
def test_worker_that_only_the_lost_server_knew_has_its_id_for_itself(
    pair, start, tmp_path
):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    sender = pair.pause_replication()
    start("--poll", "0.2", "--concurrency", "1")
    lost = job_on(pair, "tests.hold", path=old)
    wait_for(lambda: tasks.lines(old), "the job that is lost runs")
    pair.lose_primary(sender)
    pair.take_over()
    start("--poll", "0.2", "--concurrency", "1")
    id = job_on(pair, "tests.hold", path=new)
    assert id == lost, "the standby knew the job, so that nothing is tested"
    wait_for(lambda: tasks.lines(new), "another worker runs the new job")
    wait_for(lambda: len(pids_of_workers(pair)) == 2, "both workers are known")
    end_and_record(pair, old)
    assert state_of(pair, id) == ("RUNNING", 1, 0, 0)
    tasks.let_go(new)
    wait_for(lambda: state_of(pair, id)[0] == "SUCCESSFUL")
    assert state_of(pair, id) == ("SUCCESSFUL", 1, 0, 0)


def end_and_record(pair, path: str) -> None:
    """End a job; return once its worker has recorded that and run another job."""
    tasks.let_go(path)
    for _ in range(2):
        after = job_on(pair, "tests.noop")
        wait_for(lambda id=after: state_of(pair, id)[0] == "SUCCESSFUL")


def pids_of_workers(pair) -> set[int]:
    with pair.connect() as own:
        return {pid for (pid,) in own.execute("SELECT pid FROM pgjobs_worker")}


@pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
def test_job_that_may_run_once_only_does_not_run_again(pair, start, tmp_path):
    path = str(tmp_path / "lines")
    start("--poll", "0.2", "--concurrency", "2")
    id = job_on(pair, "tests.hold", path=path)
    with pair.connect() as own:
        own.execute("UPDATE pgjobs_job SET max_crashes = 1")
    wait_for(lambda: tasks.lines(path), "it runs")
    lose_primary(pair)
    pair.take_over()
    tasks.let_go(path)
    wait_for(lambda: state_of(pair, id)[0] == "SUCCESSFUL")
    assert state_of(pair, id) == ("SUCCESSFUL", 1, 0, 0)


@pytest.mark.parametrize("pair", ["synchronous"], indirect=True)
def test_atomic_job_takes_effect_once_whatever_server_takes_over(pair, start, tmp_path):
    path = str(tmp_path / "lines")
    start("--poll", "0.2")
    id = job_on(pair, "bodies.enqueue_and_hold_atomic", path=path)
    wait_for(lambda: tasks.lines(path), "it runs")
    tasks.let_go(path + ".begin")
    lose_primary(pair)
    pair.take_over()
    tasks.let_go(path)
    wait_for(lambda: state_of(pair, id)[0] == "SUCCESSFUL")
    assert children(pair) == 1


@pytest.mark.parametrize("pair", ["synchronous"], indirect=True)
def test_standby_is_never_taken_for_the_primary(pair, start):
    """Of a server that takes no writes the worker says so, and ends."""
    connecting = json.loads(environment(pair)["PGJOBS_TEST_CONNECTING"])
    connecting["PORT"] = str(pair.standby.port)
    del connecting["OPTIONS"]
    own = {**environment(pair), "PGJOBS_TEST_CONNECTING": json.dumps(connecting)}
    worker = WorkerProcess("--poll", "0.2", **own)
    assert worker.wait() == 1
    assert "read-only" in worker.printed
