"""runjobs --processes: which workers start, are replaced and stop, in which order."""

import math
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Attempt, Job, Worker
from pgjobs.worker import ExitCode
from pgjobs.worker.connections.bell import Bell
from pgjobs.worker.observer import RunStats
from pgjobs.worker.process import supervisor
from pgjobs.worker.process.pipe import SupervisorPipe
from pgjobs.worker.process.supervisor import ChildProcess, Supervisor, Team, WorkerPipe
from tests import tasks
from tests.actors import execute, session
from tests.processes import SOON, WorkerProcess, shared_queue, wait_for, wait_for_status

BRISK = {
    "HEARTBEAT_INTERVAL": 0.2,
    "LEASE_DURATION": 1,
    "TASK_MODULES": ["tests.support.hasty"],
}

STARTING_SECONDS = 120  # that three processes may take to start on a busy machine


# The supervisor's decisions, with stand-ins for its workers

# `start` is what number of start this is; `ready(completed)` tells the supervisor.
STAND_IN = """
import os, signal, socket, struct, sys, time
path, line = sys.argv[1], socket.socket(fileno=int(sys.argv[-1]))
with open(path, "a+") as file:
    file.write("started\\n")
    file.seek(0)
    start = len(file.readlines())
def ready(completed=0):
    line.send(struct.pack("!4Q", completed, 0, 0, 0))
"""


@pytest.fixture
def supervise(tmp_path, monkeypatch):
    """Run a supervisor whose workers do what a script says.

    Returns it, with its exit code and the number of starts.
    """
    monkeypatch.setattr(supervisor, "SHORTEST_PAUSE", 0.01)

    def run(script: str, processes: int = 1, during: Callable | None = None, **options):
        path = tmp_path / "starts"
        command = [sys.executable, "-S", "-c", STAND_IN + script, str(path)]
        it = Supervisor(
            lambda number, is_first: command,
            **{"processes": processes, "grace": 0.1, "is_finite": True, **options},
        )
        guard = threading.Timer(20, lambda: (it.stop(), it.stop()))
        guard.start()
        if during:
            threading.Thread(target=during, args=[it, path], daemon=True).start()
        it.exit_code = it.run()
        guard.cancel()
        it.starts = len(tasks.lines(path))
        return it

    return run


def test_worker_that_dies_is_replaced(supervise):
    it = supervise("ready(); sys.exit(0 if start > 3 else 77)")
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 4)
    assert it.children[0].quick_deaths == 3


def test_worker_that_recycles_is_replaced_without_a_pause(supervise, monkeypatch):
    monkeypatch.setattr(supervisor, "SHORTEST_PAUSE", 60)
    it = supervise("ready(); sys.exit(0 if start > 3 else 5)")
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 4)


def test_pauses_grow_with_quick_deaths_and_start_again_after_a_healthy_while():
    place = ChildProcess(1, Team(range(1, 2)))
    place.started_at = math.inf  # only just
    pauses = [place.pause_after_death() for _ in range(9)]
    for expected, pause in zip([0.5, 1, 2, 4, 8, 16, 30, 30, 30], pauses, strict=True):
        assert 0.8 * expected <= pause <= expected
    place.started_at = -math.inf
    assert place.pause_after_death() <= 0.5


def test_what_cannot_start_at_all_is_tried_once_and_ends_the_supervisor(supervise):
    it = supervise("sys.exit(1)", processes=3, is_finite=False)
    assert (it.exit_code, it.starts) == (ExitCode.LOST, 1)


def test_worker_that_is_killed_before_it_was_ready_is_replaced(supervise):
    it = supervise("if start == 1: os.kill(os.getpid(), 9)\nready()")
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 2)


def test_one_that_stops_by_itself_is_replaced_unless_the_run_is_finite(supervise):
    assert supervise("ready()", processes=2).starts == 2

    def stop_after_four(it, path):
        wait_for(lambda: len(tasks.lines(path)) >= 4)
        it.stop()

    it = supervise("ready()", is_finite=False, during=stop_after_four)
    assert it.exit_code == ExitCode.STOPPED


def test_worker_that_lost_its_database_is_replaced_unless_the_run_is_finite(supervise):
    it = supervise("ready(); sys.exit(1)")
    assert (it.exit_code, it.starts) == (ExitCode.LOST, 1)
    it = supervise(
        "ready(); sys.exit(1) if start == 2 else line.recv(1)",
        is_finite=False,
        during=stop_when_all_have_started(3),
    )
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 3)


def test_no_worker_is_started_when_the_time_is_over(supervise):
    it = supervise("ready(); time.sleep(0.2); sys.exit(5)", max_time=0.1)
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 1)


def test_signal_between_two_starts_is_the_end(supervise, monkeypatch):
    monkeypatch.setattr(supervisor, "SHORTEST_PAUSE", 60)

    def stop_in_the_pause(it, path):
        wait_for(lambda: it.children[0].quick_deaths)
        it.stop()

    it = supervise("ready(); sys.exit(77)", during=stop_in_the_pause)
    assert (it.exit_code, it.starts) == (ExitCode.STOPPED, 1)


def test_signal_ends_the_sleep_even_if_its_handler_comes_too_late(
    supervise, monkeypatch
):
    # As after a signal just before the system call: only the handler rings in vain.
    monkeypatch.setattr(Bell, "ring", lambda self: None)

    def terminate(it, path):
        wait_for(lambda: it.is_proven)
        os.kill(os.getpid(), signal.SIGTERM)

    script = "ready(); line.settimeout(5); line.recv(1)"
    it = supervise(script, is_finite=False, during=terminate)
    assert (it.exit_code, it.signals) == (ExitCode.STOPPED, 1)


def stop_when_all_have_started(number: int, times: int = 1):
    def stop(it, path):
        wait_for(lambda: len(tasks.lines(path)) == number)
        for _ in range(times):
            seen = it.obeyed
            it.stop()
            wait_for(lambda seen=seen: it.obeyed > seen or it.worst)

    return stop


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ("0, 0", 0),
        ("0, 5", 0),
        ("3, 0", 3),
        ("4, 3", 4),
        ("1, 0", 1),
        ("0, 77", ExitCode.GRACE_OVER),
    ],
)
def test_exit_code_is_the_worst_of_the_workers(supervise, codes, worst):
    it = supervise(
        f"ready(); line.recv(1); sys.exit([{codes}][start - 1])",
        processes=2,
        during=stop_when_all_have_started(2),
    )
    assert (it.exit_code, it.starts) == (worst, 2)


@pytest.mark.parametrize(("signals", "code"), [(1, 3), (2, 4)])
def test_worker_that_does_not_obey_is_killed(supervise, monkeypatch, signals, code):
    monkeypatch.setattr(supervisor, "OBEY_SECONDS", 0.2)
    it = supervise(
        "ready(); time.sleep(60)", during=stop_when_all_have_started(1, signals)
    )
    assert it.exit_code == code


def test_second_signal_reaches_the_workers_as_such(supervise):
    it = supervise(
        "ready(); orders = line.recv(1); orders += line.recv(1)\n"
        "sys.exit(4 if orders == b'12' else 1)",
        during=stop_when_all_have_started(1, times=2),
        grace=60,
    )
    assert it.exit_code == ExitCode.SECOND_SIGNAL


def test_signals_before_a_worker_can_handle_them_do_not_kill_it(supervise):
    it = supervise("os.kill(os.getpid(), signal.SIGINT); ready(1)")
    assert (it.stats.completed, it.starts) == (1, 1)


def test_counts_of_all_workers_are_added_up_also_of_those_that_died(supervise):
    it = supervise("ready(1); ready(5); sys.exit(77 if start == 1 else 0)", processes=2)
    assert it.starts == 3
    assert it.stats == RunStats(completed=15)


def test_after_a_change_workers_end_first_and_then_others_start(supervise):
    def change(it, path):
        wait_for(lambda: it.is_proven)
        it.reload()

    it = supervise("ready(start)\nif start == 1: line.recv(1)", during=change)
    assert (it.exit_code, it.starts, it.stats.completed) == (0, 2, 3)


def test_broken_code_waits_for_the_next_change(supervise, tmp_path):
    def change(it, path):
        wait_for(lambda: it.children[0].start_at == math.inf)
        it.reload()

    it = supervise(
        "if start == 1: sys.exit(1)\nready()", waits_for_changes=True, during=change
    )
    assert (it.exit_code, it.starts) == (0, 2)


def test_signals_and_orders_that_say_the_same_are_one_request():
    line, calls = WorkerPipe(), []
    pipe = SupervisorPipe(line.far_end.detach())
    pipe.obey(lambda: calls.append("stop"))
    pipe.signalled()
    wait_for(lambda: calls)
    pipe.signalled()
    wait_for(lambda: not is_readable(pipe.bell.read_end), "the bell was heard")
    line.order(1)
    wait_for(lambda: not is_readable(pipe.socket), "the order was heard")
    assert calls == ["stop"]
    line.order(2)
    wait_for(lambda: calls == ["stop", "stop"])
    line.socket.close()


def is_readable(file) -> bool:
    return bool(select.select([file], [], [], 0)[0])


# Real workers


def children_of(worker: WorkerProcess) -> list[int]:
    path = f"/proc/{worker.pid}/task/{worker.pid}/children"
    return [int(pid) for pid in Path(path).read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][1] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def start_workers(start_worker):
    """Start a supervisor with two workers; returns once both are registered."""

    def start(*arguments: str, **how):
        worker = start_worker("--processes", "2", *arguments, registered=False, **how)
        wait_for(
            lambda: Worker.objects.count() == 2 or not worker.is_alive,
            "both are registered",
            timeout=STARTING_SECONDS,
        )
        assert worker.is_alive, worker.printed
        return worker

    return start


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


def hold_two(path: str) -> list[Job]:
    """Enqueue two jobs, one for each worker of one slot."""
    return enqueue_many([tasks.hold.bind(path), tasks.hold.bind(path)])


def wait_until_held(path: str, number: int = 2) -> list[int]:
    """Return the processes that hold the path once there are so many."""
    wait_for(lambda: len(tasks.lines(path)) >= number, f"{number} jobs run")
    return [int(line) for line in tasks.lines(path)]


@shared_queue
def test_supervisor_has_no_connection_and_its_workers_have_names(start_workers, path):
    jobs = hold_two(path)
    worker = start_workers("--concurrency", "1", "--name", "mail")
    pids = wait_until_held(path)
    assert sorted(pids) == sorted(children_of(worker))
    names = Worker.objects.order_by("name").values_list("name", flat=True)
    assert list(names) == ["mail-1", "mail-2"]
    links = [os.readlink(f) for f in Path(f"/proc/{worker.pid}/fd").iterdir()]
    assert sum(link.startswith("socket:") for link in links) == 2  # the two lines
    worker.send(signal.SIGTERM)
    wait_for(lambda: "Stopping: waiting for 2 workers to end." in worker.printed)
    tasks.let_go(path)
    assert worker.wait() == ExitCode.STOPPED
    for job in jobs:
        job.refresh_from_db()
        assert job.status == "SUCCESSFUL"
    assert "Completed 2 jobs\n" in worker.printed
    assert worker.printed.count("Stop with Ctrl-C") == 1
    assert f"2 worker processes of {worker.pid}, each: 1 slot, " in worker.printed
    for number, job in enumerate(jobs, 1):
        assert f" tests.hold #{job.pk} SUCCESSFUL " in worker.printed
        assert f" mail-{number} tests.hold #" in worker.printed
    assert not any(map(is_running, pids))


@shared_queue
def test_workers_end_with_a_supervisor_that_was_killed(start_workers, path):
    job = enqueue(tasks.hold, path)
    worker = start_workers("--grace", "60")
    pids = children_of(worker)
    wait_until_held(path, 1)
    worker.kill()
    wait_for(lambda: not any(map(is_running, pids)), timeout=SOON)
    job.refresh_from_db()
    assert (job.status, job.crashes) == ("READY", 0)
    assert not Worker.objects.exists()


WAITS_FOR_A_LOCK = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@shared_queue
def test_worker_that_still_starts_ends_with_a_supervisor_that_was_killed(start_worker):
    """Its first statement waits for a lock."""
    with session() as other:
        other.begin()
        other.execute("LOCK TABLE django_migrations IN ACCESS EXCLUSIVE MODE")
        worker = start_worker("--processes", "1", registered=False)
        wait_for(
            lambda: execute(WAITS_FOR_A_LOCK),
            "it waits for the lock",
            timeout=STARTING_SECONDS,
        )
        pids = children_of(worker)
        worker.kill()
        wait_for(lambda: not any(map(is_running, pids)), timeout=SOON)
    assert pids


@shared_queue
def test_crash_of_a_worker_touches_its_own_jobs_only(start_workers, path):
    jobs = hold_two(path)
    worker = start_workers("--concurrency", "1", settings=BRISK)
    victim, survivor = wait_until_held(path)
    os.kill(victim, signal.SIGKILL)
    wait_until_held(path, 3)
    tasks.let_go(path)
    for job in jobs:
        wait_for_status(job, "SUCCESSFUL")
    assert sorted(job.crashes for job in jobs) == [0, 1]
    (untouched,) = (job for job in jobs if not job.crashes)
    assert untouched.return_value == survivor
    wait_for(lambda: len(children_of(worker)) == 2, "another one has followed")
    os.kill(survivor, signal.SIGTERM)  # to one worker: it is replaced
    wait_for(lambda: Worker.objects.exclude(pid__in=[victim, survivor]).count() == 2)
    assert worker.stop() == ExitCode.STOPPED
    assert worker.printed.count("died") == 1
    assert f"Worker pid={victim} died (signal 9), another one follows" in worker.printed


@shared_queue
def test_poison_job_fails_and_fifty_that_shared_its_processes_succeed(start_workers):
    innocent = [tasks.sleep.bind(0.02) for _ in range(50)]
    jobs = enqueue_many([*innocent[:3], tasks.kill_own_process.bind(), *innocent[3:]])
    poison = jobs.pop(3)
    worker = start_workers("--concurrency", "4", settings=BRISK)
    wait_for_status(poison, "FAILED")
    assert (poison.crashes, poison.reason) == (3, "Worker lost (crash 3 of 3).")
    ids = [job.pk for job in jobs]
    succeeded = Job.objects.filter(pk__in=ids, status="SUCCESSFUL")
    wait_for(lambda: succeeded.count() == 50, "the innocent have succeeded")
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"CRASHED"}
    assert worker.stop() == ExitCode.STOPPED
    assert worker.printed.count("died (signal 9)") == 3
    job = f"Job id={poison.pk} task=tests.kill_own_process"
    assert f" WARNING {job} lost its worker (crash 2), now READY\n" in worker.printed
    assert f" ERROR {job} lost its worker (crash 3), now FAILED\n" in worker.printed


@shared_queue
def test_each_worker_makes_way_after_as_many_jobs_as_it_may_run(start_worker):
    jobs = enqueue_many([tasks.own_process.bind() for _ in range(5)])
    worker = start_worker(
        "--processes=1", "--max-jobs=2", "--drain", "--concurrency=1", registered=False
    )
    assert worker.wait() == ExitCode.STOPPED, worker.printed
    pids = [Job.objects.get(pk=job.pk).return_value for job in jobs]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
    assert "Completed 5 jobs" in worker.printed.splitlines()
    assert "died" not in worker.printed


@shared_queue
def test_worker_that_has_grown_too_large_is_replaced_between_jobs(
    start_worker,
):
    first = enqueue(tasks.grow, 400)
    second = enqueue(tasks.noop)
    worker = start_worker(
        "--max-memory", "300MB", "--concurrency", "1", registered=False
    )
    assert worker.wait() == ExitCode.RESTART
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status) == ("SUCCESSFUL", "READY")
    assert not Worker.objects.exists()


@shared_queue
def test_limit_that_is_too_small_to_start_with_is_an_error_that_says_so():
    with pytest.raises(CommandError, match="--max-memory 2MB is less than a worker"):
        call_command("runjobs", "--drain", "--max-memory", "2MB")


@shared_queue
def test_what_cannot_start_says_why_once(start_worker):
    worker = start_worker(
        "--processes",
        "3",
        registered=False,
        DATABASE_URL="postgresql://operator:secret-word@127.0.0.1:1/queue",
    )
    assert worker.wait() == ExitCode.LOST
    assert worker.printed.count("The database 'default' cannot be reached") == 1
    assert "secret-word" not in worker.printed
    assert "Completed" not in worker.printed


@pytest.mark.parametrize("option", ["--processes=2", "--reload"])
def test_program_that_has_no_command_line_to_repeat_is_refused(option):
    with pytest.raises(CommandError, match="work on the command line only"):
        call_command("runjobs", option)
