"""The workers of a run: real `runjobs` processes, which come back as under systemd."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .clocks import Clock
from .project.settings import SLOTS, UNITS

GRACE = 3  # seconds that running jobs get when their worker is asked to stop
RESTART_PAUSE = 0.5  # seconds, as a service manager waits


@dataclass
class Member:
    """A supervisor with its workers, or a single worker; one process after another."""

    name: str
    processes: int  # 0: a worker without a supervisor
    has_own_clock: bool = False
    special: tuple[str, ...] = ()  # arguments instead of those for units
    declares_more: bool = False
    generation: int = 0
    process: subprocess.Popen | None = None
    former: list[subprocess.Popen] = field(default_factory=list)

    @property
    def arguments(self) -> list[str]:
        line = [
            "runjobs",
            "--name",
            f"{self.name}.{self.generation}",
            "--grace",
            str(GRACE),
        ]
        line += ["--concurrency", str(SLOTS)]
        line += self.special or ("--units", str(UNITS))
        if self.processes:
            line += ["--processes", str(self.processes)]
        return line

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Fleet:
    """Starts its members, and starts them again when they have ended."""

    def __init__(self, members: list[Member], environment: dict, scratch: Path):
        self.members = members
        self.environment = environment
        self.release = 1
        self.scratch = scratch
        self.clock = Clock(scratch / "clock")
        self.log = (scratch / "workers.log").open("ab")
        self.is_stopping = threading.Event()
        self.lock = threading.Lock()

    def start(self) -> None:
        for member in self.members:
            self.start_member(member)
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()

    def keep(self) -> None:
        """Start again what has ended."""
        while not self.is_stopping.wait(RESTART_PAUSE):
            for member in self.members:
                with self.lock:
                    if not member.is_alive and not self.is_stopping.is_set():
                        self.start_member(member)

    def start_member(self, member: Member) -> None:
        if member.process is not None:
            member.former.append(member.process)
        member.generation += 1
        command = [sys.executable, "-W", "ignore", "-m", "django", *member.arguments]
        member.process = subprocess.Popen(
            command,
            env=self.environment_of(member),
            # Not where we are: a copy of the package is to be found before ours.
            cwd=self.scratch,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    def environment_of(self, member: Member) -> dict[str, str]:
        own = {**self.environment, "CHAOS_RELEASE": str(self.release)}
        if member.declares_more:
            own["CHAOS_DECLARES"] = "more"
        return self.clock.environment_of_python(own) if member.has_own_clock else own

    def deploy(self, member: Member) -> None:
        """Start the next release of a member while the old one still ends its jobs."""
        with self.lock:
            if member.is_alive:
                member.process.terminate()
            self.start_member(member)

    def stop(self) -> None:
        """Ask all to stop, and end what does not."""
        self.is_stopping.set()
        self.keeper.join()
        everything = [
            process
            for member in self.members
            for process in [*member.former, member.process]
            if process is not None
        ]
        for process in everything:
            signal_group(process, signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + 12
        for process in everything:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            signal_group(process, signal.SIGKILL)
        self.log.close()


def signal_group(process: subprocess.Popen, number: signal.Signals) -> None:
    """Signal a member with all its workers; each member has a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
