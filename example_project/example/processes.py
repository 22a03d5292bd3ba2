"""Start the demo's web server and worker, and end them again."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

HOST = "127.0.0.1"  # An example serves only its own machine.
GRACE_SECONDS = 20


class ChildDied(Exception):
    """The web server or the worker ended without being asked to."""


class Child:
    """A management command in a process of its own, which ends with the demo."""

    def __init__(self, name, *command, logs: Path):
        self.name = name
        self.log = logs / f"{name.replace(' ', '-')}.log"
        logs.mkdir(exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, sys.argv[0], "demo_child", *command],
                stdin=subprocess.PIPE,  # Closed when the demo is gone: see demo_child.
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops us.
            )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def check(self):
        """Raise ChildDied with the end of the log if the process is gone."""
        if self.process.poll() is not None:
            raise ChildDied(
                f"The {self.name} ended with exit code {self.process.returncode}. "
                f"The end of {self.log}:\n{self.last_lines()}"
            )

    def last_lines(self, count=20):
        """Return the end of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-count:])

    def stop(self):
        """Ask the process to end, wait for it, and kill it as the last resort."""
        self.process.terminate()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()


def is_free(port) -> bool:
    """Tell whether a server could listen on the port."""
    with closing(socket.socket()) as probe:
        if os.name == "posix":  # As the web server does; else TIME_WAIT looks busy.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a free port."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]
