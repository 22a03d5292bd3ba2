"""Worker processes and threads, and waiting for conditions."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from pgjobs.models import Job
from pgjobs.queue import upkeep
from pgjobs.sql import find, statement
from pgjobs.worker import ExitCode, Loop, WorkerOptions
from pgjobs.worker.connections.connection import OwnConnection
from pgjobs.worker.observer import WorkerObserver
from pgjobs.worker.upkeep.chores import questions
from tests import settings as test_settings

ROOT = Path(__file__).resolve().parent.parent
# In seconds. Only a dead machine takes longer.
LONGEST_TEST = 120.0
PATIENCE = 60.0
# Far from the ten minutes after which sleepers poll, and from the longest grace.
SOON = 20.0
OFTEN = 0.1  # seconds between two polls where no notification arrives
# Where workers listen if everything else goes through a pooler.
AROUND = {"LISTEN": test_settings.DIRECT} if test_settings.POOLER == "around" else {}
# Real transactions, seen by other connections; only these apps' tables are emptied
# after the test, which is faster.
shared_queue = pytest.mark.django_db(
    transaction=True, available_apps=["pgjobs", "tests"]
)
# The names of the statements, those of features too, by their text.
STATEMENTS = {
    statement(path.stem): path.stem
    for rooms in ("sql", "features")
    for path in (ROOT / "pgjobs" / rooms).glob("*/*.sql")
}
# What the workers run for all jobs. Of features also what the application runs.
UPKEEP = {
    path.stem
    for room in ("sql/upkeep", "features/*")
    for path in (ROOT / "pgjobs").glob(f"{room}/*.sql")
    if path.parent.name != "steps"  # which are those of one job
}
# The survey, with the question of each chore.
SURVEY = upkeep.survey(tuple(questions().values()))
STATEMENTS[SURVEY] = "chores"


def wait_for(
    condition: Callable[[], object], what: str = "", timeout: float = PATIENCE
):
    """Return the condition's value once it is true; fail loudly after the time-out."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still not after {timeout:g} s: {what or condition}")
        time.sleep(0.01)
    return value


def wait_for_status(job: Job, *statuses: str, timeout: float = PATIENCE) -> Job:
    """Wait until the job has one of the statuses; return it, fresh."""

    def has_status():
        job.refresh_from_db()
        return job.status in statuses

    wait_for(has_status, f"{job} is {' or '.join(statuses)}", timeout)
    return job


def wait_for_all(status: str, timeout: float = PATIENCE) -> None:
    """Wait until every job has this status."""
    others = Job.objects.exclude(status=status)
    wait_for(lambda: not others.exists(), f"all jobs are {status}", timeout)


def database_url(host: str | None = None, port: str | int | None = None) -> str:
    """Return the owner's URL of the tests' server, or of what stands before it."""
    database = test_settings.DATABASES["default"]
    host = quote(host or database["HOST"] or "", safe="")
    port = port or database["PORT"]
    user = quote(database["USER"], safe="")
    if database["PASSWORD"]:
        user += f":{quote(database['PASSWORD'], safe='')}"
    return f"postgresql://{user}@{host}{f':{port}' if port else ''}/postgres"


def process_environment(
    settings: dict | None = None, **environment: str
) -> dict[str, str]:
    """Return the environment of a process that works on the test's database.

    `settings`: what it has in PGJOBS. `environment`: what goes before all of this.
    """
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'example_project'}",
        "PYTHONUNBUFFERED": "1",
        "DATABASE_URL": database_url(),
        "PGJOBS_IN_TEST_PROCESS": "1",
        "PGJOBS_TEST_DATABASE": test_settings.TEST_DATABASE,
        "PGJOBS_TEST_SETTINGS": json.dumps({**AROUND, **(settings or {})}),
        **environment,
    }


class WorkerProcess:
    """A real `manage.py runjobs`; ended at the latest when the test is over."""

    def __init__(
        self,
        *arguments: str,
        settings: dict | None = None,
        terminal: int | None = None,
        before: Sequence[str] = (),
        **environment: str,
    ):
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (a pipe may fill up)
        python = [*before, sys.executable, "-W", "ignore"]
        command = [*python, "-m", "django", "runjobs"]
        if test_settings.POOLER == "none":
            arguments += ("--poll", str(OFTEN))  # the last one counts
        self.process = subprocess.Popen(
            [*command, *arguments],
            env=process_environment(settings, **environment),
            cwd=ROOT,
            stdin=terminal,
            stdout=self.log if terminal is None else terminal,
            stderr=subprocess.STDOUT,
            start_new_session=terminal is not None,
            preexec_fn=None if terminal is None else take_terminal,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def printed(self) -> str:
        """What the process has printed and logged so far."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    @property
    def cpu_seconds(self) -> float:
        """The processor time that the process has used so far."""
        text = Path(f"/proc/{self.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def stop(self) -> int:
        """Ask the worker to stop; return its exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self, timeout: float = LONGEST_TEST) -> int:
        return self.process.wait(timeout)

    def output(self, timeout: float = LONGEST_TEST) -> str:
        """Wait for the end and return everything that was printed."""
        self.wait(timeout)
        return self.printed


def take_terminal() -> None:
    """Make standard input the controlling terminal of this process's session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class WorkerThread:
    """A worker's loop in a thread of the test's process."""

    def __init__(self, observer: WorkerObserver | None = None, **options):
        if test_settings.POOLER == "none":
            options["poll"] = OFTEN
        self.loop = Loop(WorkerOptions(**options), observer)
        self.exit_code: ExitCode | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.exit_code = self.loop.run()
        except BaseException as error:  # noqa: BLE001  (re-raised by the test)
            self.error = error

    def join(self, timeout: float = LONGEST_TEST) -> ExitCode:
        """Wait for the end; fail the test if the loop does not end."""
        self.thread.join(timeout)
        if self.thread.is_alive():
            self.loop.stop()
            self.loop.stop()
            raise AssertionError(f"the worker has not ended after {timeout:g} s")
        if self.error is not None:
            raise self.error
        return self.exit_code

    def stop(self) -> ExitCode:
        self.loop.stop()
        return self.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.thread.is_alive():
            self.stop()


@contextmanager
def running_worker(**options) -> Iterator[Loop]:
    """Run a worker in this process for the length of a block."""
    with WorkerThread(**options) as worker:
        wait_for(lambda: worker.loop.phase != "starting", "the worker has started")
        if worker.loop.listener.wanted:
            # Behind a pooler it stops wanting to.
            listener = worker.loop.listener
            wait_for(
                lambda: listener.connection or not listener.wanted, "the worker listens"
            )
        yield worker.loop


def wait_for_pass(loop: Loop) -> None:
    """Return when the loop has ended a pass that began after this call."""
    for _ in range(2):
        loop.upkeep.survey.due = 0
        loop.bell.ring()
        wait_for(lambda: loop.upkeep.survey.due, "it has looked for chores")


def drain(**options) -> Loop:
    """Run, in this process, everything that is READY; return the loop."""
    worker = WorkerThread(drain=True, **options)
    assert worker.join() == ExitCode.STOPPED
    return worker.loop


def run(task, *args, **kwargs) -> Job:
    """Enqueue a job and drain the queue; return the job, fresh."""
    job = task.enqueue(*args, **kwargs)
    drain()
    job.refresh_from_db()
    return job


class Executed(list[str]):
    """Statements that workers have executed, each as "<role> <statement>".

    After a renaming, a test that asks for the old name would pass for ever. So to ask
    for a statement that does not exist raises LookupError.
    """

    def __contains__(self, name: object) -> bool:
        return self.count(str(name)) > 0

    def count(self, name: str) -> int:
        find(name.partition(" ")[2])
        return super().count(name)


@contextmanager
def statements_of_workers() -> Iterator[Executed]:
    """Collect what the workers of this process execute."""
    collected = Executed()
    execute, together = OwnConnection.execute, OwnConnection.together

    def collecting(self, query, parameters=None):
        collected.append(f"{self.role} {STATEMENTS.get(query, query)}")
        return execute(self, query, parameters)

    def collecting_all(self, statements):
        if not self.pooled:  # or it executes one after the other
            queries = [STATEMENTS.get(query, query) for query, _ in statements]
            collected.extend(f"{self.role} {query}" for query in queries)
        return together(self, statements)

    OwnConnection.execute, OwnConnection.together = collecting, collecting_all
    try:
        yield collected
    finally:
        OwnConnection.execute, OwnConnection.together = execute, together
