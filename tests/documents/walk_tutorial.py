"""Walk through the tutorial as a reader does, with a wheel in a fresh environment.

Usage: python -m tests.documents.walk_tutorial WHEEL

The page is the program: a block that names a file goes into that file, each command
line runs as it stands, and so does each sentence that begins with a word of ACTS. A
worker or a server that the page starts runs on beside what follows, and starts again
when its tasks have changed. After each step this looks for the effect that the page
promises.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from benchmarks.ports import free_port
from tests.documents.browser import Browser
from tests.documents.examples import ROOT
from tests.support.server import PrivateServer

BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.M | re.S)
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
COMMAND = re.compile(r"^    (\S.*)$", re.M)
# What the page asks for in a sentence, and the method that does it.
ACTS = {
    "press_ctrl_c": re.compile(r"\bPress\s+Ctrl-C\b"),
    "open": re.compile(r"\bOpen `http://127\.0\.0\.1:8000(/\S*)`"),
    "log_in": re.compile(r"\blog\s+in\b"),
    "click": re.compile(r"\b(?:[Cc]lick|then|and)\s+\*([^*]+)\*"),
    "change": re.compile(r"change\s+`(\w+)`\s+to\s+`(\w+)`"),
}
PATIENCE = 180  # seconds, for a machine that does much else


class Reader:
    """A reader with a terminal, in a folder that holds nothing yet."""

    def __init__(self, folder: Path, server: PrivateServer, wheel: Path) -> None:
        self.folder = folder
        self.wheel = wheel
        self.worker: subprocess.Popen | None = None
        self.server: subprocess.Popen | None = None
        self.orphan: int | None = None  # the job of a worker that was killed
        self.port = free_port()
        self.browser = Browser()
        tools = f"{folder}/.venv/bin:{server.pg_ctl.parent}:{os.environ['PATH']}"
        self.environment = {
            "HOME": os.environ["HOME"],
            "PATH": tools,
            "PGHOST": str(server.socket_directory),
            "PGUSER": "ada",
            "DJANGO_SUPERUSER_USERNAME": "ada",
            "DJANGO_SUPERUSER_EMAIL": "ada@example.com",
            "DJANGO_SUPERUSER_PASSWORD": "correct horse",
        }

    def follow(self, page: str) -> None:
        """Do what the page says, from its first line to its last."""
        parts = [(found.start(), self.write, found) for found in BLOCK.finditer(page)]
        inside = [found.span() for found in FENCE.finditer(page)]
        acts = {self.type: COMMAND} | {getattr(self, n): act for n, act in ACTS.items()}
        for act, pattern in acts.items():
            for found in pattern.finditer(page):
                if not any(start < found.start() < end for start, end in inside):
                    parts.append((found.start(), act, found))
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
        if self.server is not None and path.name == "tasks.py":
            self.stop_server()
            self.start_server()

    def type(self, line: str) -> None:
        """Run a command line, and look for what the page promises of it."""
        sys.stdout.write(f"$ {line}\n")
        if line == "python manage.py runjobs":
            self.start_worker()
            self.see_orphan_run_again()
            return
        if line == "python manage.py runserver":
            self.start_server()
            return
        if line.startswith("pkill -9"):
            self.kill_worker()  # and no other one of this machine
            return
        line = line.replace(
            'install "../pgjobs[binary]"', f'install --quiet "{self.wheel}[binary]"'
        )
        line = line.replace("createsuperuser", "createsuperuser --noinput")
        self.run(line)
        if "shop.greet" in line:
            self.wait_for("jobs list --task shop.greet --status successful")
        if "shop.count_stars" in line:
            self.wait_for("jobs list --task shop.count_stars --status running")
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

    # The worker's terminal

    def press_ctrl_c(self) -> None:
        """Stop the worker while it runs a job, which ends before."""
        self.stop_worker()
        self.worker = None
        listed = self.run("python manage.py jobs list --task shop.count_stars")
        if "SUCCESSFUL" not in listed:
            sys.exit(f"The worker did not wait for its job:\n{listed}")

    def kill_worker(self) -> None:
        """Kill the worker while it runs a job."""
        assert self.worker
        command = "jobs list --task shop.count_stars --status running --json"
        listed = self.run(f"python manage.py {command}")
        (self.orphan,) = map(int, re.findall(r'"id": (\d+)', listed))
        self.worker.kill()
        self.worker.wait(PATIENCE)
        self.worker = None

    def see_orphan_run_again(self) -> None:
        if self.orphan is not None:
            self.wait_for_text(f"jobs show {self.orphan}", "CRASHED")
            self.wait_for_text(f"jobs show {self.orphan}", "SUCCESSFUL")
            self.orphan = None

    # The browser

    def start_server(self) -> None:
        """Start Django's own server and wait until it answers."""
        line = f"python manage.py runserver --noreload {self.port}"
        self.server = self.start(line, subprocess.DEVNULL)
        wait_until(lambda: answers(self.address("/admin/login/")), "the admin answers")

    def stop_server(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(PATIENCE)

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def open(self, path: str) -> None:
        """Open an address of the page in the browser."""
        self.browser.open(self.address(path))
        if path.startswith("/hello/"):
            job = self.number_in(self.browser.page.text)
            self.wait_for_text(f"jobs show {job}", "SUCCESSFUL")

    def log_in(self) -> None:
        self.browser.type("username", self.environment["DJANGO_SUPERUSER_USERNAME"])
        self.browser.type("password", self.environment["DJANGO_SUPERUSER_PASSWORD"])
        self.browser.click("Log in")

    def change(self, name: str, text: str) -> None:
        self.browser.type(name, text)

    def click(self, words: str) -> None:
        """Click what the page names, and look for what it promises of that."""
        words = " ".join(words.split())
        sys.stdout.write(f"click {words}\n")
        browser, before = self.browser, self.browser.address
        browser.click(words)
        if words == "shop.divide" and not browser.sees("Traceback (most recent"):
            sys.exit("The page of the job shows no traceback.")
        if words == "Retry" and "/retry/" in before:
            job = self.number_in(before.partition("?")[0])
            self.wait_for_text(f"jobs show {job}", "attempt 2 of life 2")
        if words == "Add job":
            self.wait_for("jobs list --task shop.divide --status successful")
        if words == "shop.tidy" and not browser.sees("Every 1 minute"):
            sys.exit("The page of the schedule does not say when it runs.")
        if words == "Pause" and "/pause/" in before:
            self.wait_for_text("schedules list", "Paused")

    def leave(self) -> None:
        """End what still runs."""
        for each in (self.worker, self.server):
            if each is not None and each.poll() is None:
                each.kill()
                each.wait(PATIENCE)

    def number_in(self, text: str) -> int:
        return int(re.findall(r"\d+", text)[-1])

    def wait_for_text(self, command: str, text: str) -> None:
        """Wait until a command of `manage.py` prints a text."""
        line = f"python manage.py {command}"
        wait_until(lambda: text in self.run(line), f"{command} says {text!r}")


def answers(address: str) -> bool:
    try:
        Browser().open(address)
    except OSError:
        return False
    return True


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
        with server.connect() as superuser:
            superuser.execute("CREATE ROLE ada LOGIN CREATEDB")
        with tempfile.TemporaryDirectory() as folder:
            reader = Reader(Path(folder), server, Path(wheel).resolve())
            try:
                reader.follow((ROOT / "docs/tutorial.md").read_text())
                reader.wait_for("schedules list")
                reader.stop_worker()
            finally:
                reader.leave()
    finally:
        server.remove()


if __name__ == "__main__":
    main(*sys.argv[1:])
