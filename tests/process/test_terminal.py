"""runjobs in a terminal, where Ctrl-C goes to every process of the command."""

import os
import pty
import re

import pytest

from pgjobs import enqueue
from pgjobs.worker import ExitCode
from tests import tasks
from tests.processes import WorkerProcess, shared_queue, wait_for

pytestmark = shared_queue

CTRL_C = b"\x03"


class Terminal:
    """A terminal of its own, with `runjobs` in the foreground."""

    def __init__(self, *arguments: str):
        self.keyboard, screen = pty.openpty()
        self.shown = b""
        self.worker = WorkerProcess(*arguments, terminal=screen)
        os.close(screen)
        os.set_blocking(self.keyboard, False)

    def type(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)

    @property
    def text(self) -> str:
        try:
            while data := os.read(self.keyboard, 65536):
                self.shown += data
        except OSError:  # nothing more now, or ever
            pass
        return self.shown.decode().replace("\r\n", "\n")


@pytest.fixture
def open_terminal(transactional_db):
    opened = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_one
    for terminal in opened:
        if terminal.worker.is_alive:
            terminal.worker.kill()
        terminal.worker.log.close()
        os.close(terminal.keyboard)


@pytest.mark.parametrize("processes", [[], ["--processes", "1"]])
def test_ctrl_c_lets_running_jobs_end(open_terminal, tmp_path, processes):
    path = tmp_path / "held"
    enqueue(tasks.hold, str(path))
    terminal = open_terminal("--concurrency", "1", "--no-color", *processes)
    wait_for(lambda: tasks.lines(path), "the job runs")
    terminal.type(CTRL_C)
    waiting = "for 1 worker to end" if processes else "for 1 job to end"
    wait_for(lambda: waiting in terminal.text, "it says what it waits for")
    tasks.let_go(path)
    wait_for(lambda: terminal.text and not terminal.worker.is_alive)
    assert terminal.worker.wait() == ExitCode.STOPPED, terminal.text
    assert "Completed 1 job\n" in terminal.text
    assert "Traceback" not in terminal.text


def test_second_ctrl_c_stops_all_workers_at_once(open_terminal, tmp_path):
    path = tmp_path / "held"
    job = enqueue(tasks.hold, str(path))
    terminal = open_terminal("--processes", "1", "--grace", "60", "--force-color")
    wait_for(lambda: tasks.lines(path), "the job runs")
    terminal.type(CTRL_C)
    wait_for(lambda: "waiting for 1 worker" in terminal.text)
    terminal.type(CTRL_C)
    wait_for(lambda: terminal.text and not terminal.worker.is_alive)
    assert terminal.worker.wait() == ExitCode.SECOND_SIGNAL, terminal.text
    job.refresh_from_db()
    assert (job.status, job.failures, job.crashes) == ("READY", 0, 0)
    assert re.search(rf"\x1b\[.*tests.hold #{job.pk} RELEASED", terminal.text)
