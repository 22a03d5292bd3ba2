"""Pools of processes side by side: how fast they start, run and kill.

All jobs are enqueued before the worker starts. Each notes when it starts.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.environments import NotInstalled, command_of, install
from benchmarks.figures import ROOT, figure, report, wait_for
from benchmarks.redis_server import RedisServer

SLOTS = 4
LIMIT = 2  # seconds, of a job in C code
LONGEST = 300.0  # seconds
RIVALS = {"celery": "prefork", "django-q2": ""}


@figure
def rivals(number: int = 1_000) -> None:
    """Measure threads and processes of pgjobs, and those of Celery and django-q2."""
    for name in ("in_thread", "in_process"):
        with tempfile.TemporaryDirectory() as folder:
            measure_own(name, number, Path(folder))
    for name in RIVALS:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            try:
                measure_rival(name, number, Path(folder), stack)
            except NotInstalled as error:
                print(f"{name}: {error}")  # noqa: T201


def measure_own(name: str, number: int, folder: Path) -> None:
    from benchmarks import isolation_tasks
    from pgjobs import enqueue_many
    from pgjobs.conf import settings
    from pgjobs.models import Job

    notes = folder / "notes"
    notes.touch()
    task = getattr(isolation_tasks, name)
    enqueue_many([task.bind(str(notes))] * number)
    command = [sys.executable, "-m", "django", "runjobs", "--verbosity", "0"]
    bounds = [f"--concurrency={SLOTS}", f"--isolated={SLOTS}"]
    title = f"pgjobs {name}"
    with running([*command, *bounds], dict(os.environ)) as begun:
        speak_of(title, notes, number, begun, place=0)
        if name == "in_process":
            held = isolation_tasks.held.using(timeout=LIMIT)
            grace = settings.TIMEOUT_GRACE  # which the others do not give
            path = folder / "held"
            speak_of_kill(title, path, lambda path: held.enqueue(path), LIMIT + grace)
    Job.objects.all().delete()


def measure_rival(name: str, number: int, folder: Path, stack: ExitStack) -> None:
    from benchmarks.catalogue import BY_NAME

    system = BY_NAME[name]
    install(system)
    notes = folder / "notes"
    notes.touch()
    options = {"pool": RIVALS[name], "slots": SLOTS, "limit": LIMIT}
    environment = {
        **{key: text for key, text in os.environ.items() if key != "PYTHONPATH"},
        "BENCHMARK_OPTIONS": json.dumps(options),
        "BENCHMARK_STAMPS": str(notes),
    }
    if system.store == "redis":
        redis = RedisServer()
        stack.callback(redis.stop)
        environment["REDIS_URL"] = redis.url
    else:
        command = [*command_of(system), "setup"]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
    ask = stack.enter_context(producer(command_of(system), environment))
    ask("enqueue_steadily", first=0, number=number, rate=1e9, batch=number)
    with running([*command_of(system), "work"], environment) as begun:
        speak_of(name, notes, number, begun, place=1)
        speak_of_kill(name, folder / "held", lambda path: ask("hold", path=path))


@contextmanager
def producer(command: list[str], environment: dict[str, str]) -> Iterator[Callable]:
    """Run what enqueues; yield what gives it an order and returns the answer."""
    process = subprocess.Popen(
        [*command, "produce"],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    orders, answers = process.stdin, process.stdout

    def ask(act: str, **arguments: Any) -> Any:
        orders.write(json.dumps([act, arguments]) + "\n")
        orders.flush()
        return json.loads(answers.readline())

    yield ask
    orders.close()
    process.wait()


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[float]:
    """Run a worker in a session of its own, and end all of it; yield the time."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield begun
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def speak_of(name: str, notes: Path, number: int, begun: float, place: int) -> None:
    """Report by the notes of the jobs, whose time stands at this place."""
    wait_for(lambda: len(notes.read_text().splitlines()) >= number, LONGEST)
    times = sorted(
        float(line.split()[place]) for line in notes.read_text().splitlines()
    )
    report(
        f"{name}: from the start of the worker to the first job", times[0] - begun, "s"
    )
    # Without the first tenth, in which processes start.
    behind = times[number // 10 :]
    rate = (len(behind) - 1) / (behind[-1] - behind[0])
    report(f"{name}: no-op jobs in {SLOTS} slots", rate, "jobs/s")


def speak_of_kill(
    name: str, path: Path, enqueue: Callable[[str], Any], limit: float = LIMIT
) -> None:
    """Report how long after its limit, and grace, a process in C code is gone."""
    enqueue(str(path))
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), LONGEST)
    begun, pid = path.read_text().split()
    try:
        wait_for(lambda: is_gone(pid), 55)
    except AssertionError:
        print(f"{name}: a job in C code is not killed at its limit")  # noqa: T201
        return
    late = time.monotonic() - float(begun) - limit
    report(f"{name}: a process in C code is gone after its limit by", late, "s")


def is_gone(pid: str) -> bool:
    """Whether a process has ended, if only as a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"
