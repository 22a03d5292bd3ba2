"""Walk through the tutorial as a reader does, with a wheel in a fresh environment.

Usage: python -m tests.documents.walk_tutorial WHEEL

The page is the program: a block that names a file goes into that file, and each command
line runs as it stands. A worker that the page starts runs on beside what follows, and
starts again when its tasks have changed. After a command this looks for the effect that
the page promises.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from benchmarks.ports import free_port
from tests.documents.examples import ROOT
from tests.server import PrivateServer

BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^    (\S.*)$", re.M)
PATIENCE = 180  # seconds, for a machine that does much else


class Reader:
    """A reader with a terminal, in a folder that holds nothing yet."""

    def __init__(self, folder: Path, server: PrivateServer, wheel: Path) -> None:
        self.folder = folder
        self.wheel = wheel
        self.worker: subprocess.Popen | None = None
        tools = f"{folder}/.venv/bin:{server.pg_ctl.parent}:{os.environ['PATH']}"
        self.environment = {
            "HOME": os.environ["HOME"],
            "PATH": tools,
            "PGHOST": str(server.socket_directory),
            "PGUSER": "postgres",
            "DJANGO_SUPERUSER_USERNAME": "ada",
            "DJANGO_SUPERUSER_EMAIL": "ada@example.com",
            "DJANGO_SUPERUSER_PASSWORD": "correct horse",
        }

    def follow(self, page: str) -> None:
        """Do what the page says, from its first line to its last."""
        parts = [(found.start(), self.write, found) for found in BLOCK.finditer(page)]
        inside = [found.span() for found in BLOCK.finditer(page)]
        for found in COMMAND.finditer(page):
            if not any(start < found.start() < end for start, end in inside):
                parts.append((found.start(), self.type, found))
        for _, act, found in sorted(parts, key=lambda part: part[0]):
            act(*found.groups())

    def write(self, file: str, code: str) -> None:
        """Write a file; what the page says of settings and tasks adds up."""
        path = self.folder / file
        written_by_reader = path.name in {"settings.py", "tasks.py"} and path.exists()
        before = path.read_text() if written_by_reader else ""
        path.write_text(f"{before}\n\n{code}".lstrip())
        if self.worker is not None and path.name == "tasks.py":
            self.stop_worker()
            self.start_worker()

    def type(self, line: str) -> None:
        """Run a command line, and look for what the page promises of it."""
        sys.stdout.write(f"$ {line}\n")
        if line == "python manage.py runjobs":
            self.start_worker()
            return
        if line == "python manage.py runserver":
            self.look_at_admin()
            return
        line = line.replace(
            'install "../pgjobs[binary]"', f'install --quiet "{self.wheel}[binary]"'
        )
        line = line.replace("createsuperuser", "createsuperuser --noinput")
        self.run(line)
        if "shop.greet" in line:
            self.wait_for("jobs list --task shop.greet --status successful")
        if "shop.divide" in line:
            self.wait_for("jobs list --task shop.divide --status failed")

    def run(self, line: str) -> str:
        """Run a line in a shell and return its output; end if it fails."""
        ended = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
        if ended.returncode != 0:
            sys.exit(f"Exit code {ended.returncode}:\n{ended.stdout}")
        return ended.stdout

    def start(self, line: str, output: IO | None = None) -> subprocess.Popen:
        return subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env=self.environment,
            stdout=output,
            stderr=output,
        )

    def start_worker(self) -> None:
        """Start a worker and wait for the lines that say that it has started."""
        output = self.folder / "worker"
        with output.open("w") as file:
            self.worker = self.start("python manage.py runjobs", file)
        wait_until(lambda: "Stop with Ctrl-C" in output.read_text(), "a worker starts")

    def stop_worker(self) -> None:
        """Press Ctrl-C, and print what the worker has said."""
        assert self.worker
        self.worker.send_signal(signal.SIGINT)
        code = self.worker.wait(PATIENCE)
        sys.stdout.write((self.folder / "worker").read_text())
        if code != 0:
            sys.exit(f"The worker stopped with exit code {code}.")

    def wait_for(self, command: str) -> None:
        """Wait until a command of `manage.py` lists something of the app `shop`."""
        wait_until(lambda: "shop." in self.run(f"python manage.py {command}"), command)

    def look_at_admin(self) -> None:
        """Start Django's own server and open the page of the admin."""
        port = free_port()
        server = self.start(f"python manage.py runserver --noreload {port}")
        try:
            address = f"http://127.0.0.1:{port}/admin/pgjobs/"
            wait_until(lambda: answers(address), "the admin answers")
        finally:
            server.terminate()
            server.wait(PATIENCE)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address) as page:
            return page.status == 200
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; end the program if it does not come true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"In vain: {what}")
        time.sleep(0.5)


def main(wheel: str) -> None:
    """Follow the page on a server of its own."""
    server = PrivateServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            reader = Reader(Path(folder), server, Path(wheel).resolve())
            reader.follow((ROOT / "docs/tutorial.md").read_text())
            reader.wait_for("schedules list")
            reader.stop_worker()
    finally:
        server.remove()


if __name__ == "__main__":
    main(*sys.argv[1:])
