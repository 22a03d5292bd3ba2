"""How tasks get run: by a command, by a callable, by `enqueue`, or not at all."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

OFTEN = 0.02  # seconds between two questions
MOST_DEATHS = 3  # of a command, while one condition is waited for
LONGEST_STOP = 30.0  # seconds
LAST_LINES = 20


class NoWorker:
    """Nothing runs tasks, unless `enqueue` does it."""

    is_process = False
    runs_at_once = False

    def __init__(self, patience: float):
        self.patience = patience

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Return the condition's value once it is true; fail after the patience."""
        if value := condition():
            return value
        if self.runs_at_once:
            raise AssertionError(f"not when enqueue has returned: {what}")
        pytest.skip("no worker was named, and enqueue runs nothing")

    @contextmanager
    def paused(self, without: str = "") -> Iterator[None]:
        """Let nothing run; then without the tasks of these names."""
        yield

    def stop(self) -> int | None:
        """Ask what runs to end, and wait for it."""
        return 0


class CalledWorker(NoWorker):
    """A callable of the project that runs what is due, in this process."""

    def __init__(self, patience: float, call: Callable[[], Any]):
        super().__init__(patience)
        self.run = call

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + self.patience
        while not (value := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"still not after {self.patience:g} s: {what}")
            self.run()
            time.sleep(OFTEN)
        return value


class CommandWorker(CalledWorker):
    """A process that the suite starts, stops and kills.

    A command that ends by itself with 0 is one that runs what is due: it starts again.
    """

    is_process = True

    def __init__(self, patience: float, command: str, log: Path):
        super().__init__(patience, self.keep_alive)
        self.command = shlex.split(command)
        self.log = log
        self.process: subprocess.Popen | None = None
        self.deaths, self.most_deaths = 0, MOST_DEATHS
        self.without = ""

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        self.most_deaths = self.deaths + MOST_DEATHS
        return super().wait(condition, what)

    def keep_alive(self) -> None:
        if self.process and (code := self.process.poll()) is not None:
            self.deaths += code != 0
            self.process = None
        if self.deaths >= self.most_deaths:
            said = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            raise AssertionError("\n".join(["the worker died again and again:", *said]))
        if self.process:
            return
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command,
                env={**os.environ, "TASKS_CONFORMANCE_WITHOUT": self.without},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> int | None:
        if self.process:
            self.process.terminate()
        return self.ended()

    def ended(self) -> int | None:
        """Wait for its end; return its exit code, None if it had to be killed."""
        try:
            return self.process.wait(LONGEST_STOP) if self.process else 0
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process and what it started, at once."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    @contextmanager
    def paused(self, without: str = "") -> Iterator[None]:
        self.stop()
        yield
        self.without = without
        self.keep_alive()
