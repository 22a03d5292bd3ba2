"""The processes of a measured system, and the processor time that they use."""

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class Crashed(Exception):
    """The system failed; the first line of the message says how, the rest more."""


class SystemProcess:
    """One process that runs an adapter, and whatever processes it starts."""

    def __init__(self, command: list[str], role: str, environment: dict[str, str]):
        # A file: a pipe would not be read while the clock runs.
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        # As a reader may type it, without the paths of this machine.
        program = Path(command[0]).name
        self.command = " ".join([program, *command[1:], role]).replace(f"{ROOT}/", "")
        self.process = subprocess.Popen(
            [*command, role],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if role == "produce" else self.log,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )

    @property
    def printed(self) -> str:
        size = os.fstat(self.log.fileno()).st_size
        begin = max(size - 2_000, 0)
        return os.pread(self.log.fileno(), size, begin).decode(errors="replace")

    def check(self) -> None:
        """Raise Crashed if the process has ended."""
        if self.process.poll() is not None:
            raise self.crashed("has ended")

    def crashed(self, how: str) -> Crashed:
        printed = self.printed.strip()
        last_line = printed.rpartition("\n")[2]
        return Crashed(f"{self.command} {how}: {last_line}\n{printed}")

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds_of_tree(self.process.pid)

    def wait(self, timeout: float) -> None:
        """Wait for the end; raises Crashed if it was no good one, or never came."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise self.crashed("does not end") from error
        if code:
            raise self.crashed("failed")

    def stop(self) -> None:
        """Ask the process to stop, then end what is left of it and its children."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session, see above
        self.process.communicate()
        self.log.close()


class Producer(SystemProcess):
    """The process that enqueues; obeys orders one after the other."""

    def order(self, act: str, **arguments: Any) -> Any:
        """Have something done and return the answer; raises Crashed."""
        self.give_order(act, **arguments)
        return self.answer()

    def give_order(self, act: str, **arguments: Any) -> None:
        self.check()
        self.process.stdin.write(json.dumps([act, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.check()
        return json.loads(line)


def cpu_seconds_of_tree(pid: int) -> float:
    """Return the processor time of a process and its children, dead ones included."""
    return sum(cpu_seconds(each) for each in [pid, *descendants(pid)])


def cpu_seconds(pid: int) -> float:
    """Return the processor time of one process and of the children that it buried."""
    try:
        # What clock_getcpuclockid() returns: exact, where /proc counts in 10 ms.
        own = time.clock_gettime(~pid << 3 | 2)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended meanwhile
    return own + (int(fields[13]) + int(fields[14])) / TICKS


def descendants(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(thread / "children").read_text() for thread in threads]
    except OSError:
        return []
    children = [int(child) for text in texts for child in text.split()]
    return children + [one for child in children for one in descendants(child)]
