"""The PostgreSQL that is stopped, starved and restarted, with a disk of its own."""

import contextlib
import ctypes
import ctypes.util
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from benchmarks.ports import free_port
from benchmarks.server import (
    DURABILITY,
    Unusable,
    find_programs,
    initialise,
    server_user,
)

from .clocks import Clock

SETTINGS = DURABILITY | {
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    # A small disk must not be full of the log of what happened long ago.
    "max_wal_size": "256MB",
    "min_wal_size": "80MB",
    # When a version of a row was committed, for the checker.
    "track_commit_timestamp": "on",
    "log_line_prefix": "%m %a ",
}
# Who owns the database: the project's role, which may do nothing else.
OWNER = "chaos_owner"
KEPT_MEGABYTES = 16  # that the filler leaves at first; the server uses them up


class Disk:
    """A directory; a tmpfs of its own where this process may mount one."""

    def __init__(self, megabytes: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pgjobs-chaos-"))
        self.is_small = mounted(self.directory, megabytes)
        self.directory.chmod(0o755)

    @property
    def filler(self) -> Path:
        return self.directory / "filler"

    def fill(self) -> None:
        """Take all space but a little; the server's next writes take that."""
        free = shutil.disk_usage(self.directory).free
        with self.filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - KEPT_MEGABYTES * 2**20)

    def fill_up(self) -> None:
        """Take what is left, down to the last block."""
        with contextlib.suppress(OSError), self.filler.open("ab") as file:
            while True:
                file.write(bytes(4096))
                file.flush()

    def free(self) -> None:
        self.filler.unlink(missing_ok=True)

    def remove(self) -> None:
        self.free()
        if self.is_small:
            subprocess.run(["umount", "-l", self.directory], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def mounted(directory: Path, megabytes: int) -> bool:
    """Mount a tmpfs there; return False if this process may not."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    options = f"size={megabytes}m".encode()
    return libc.mount(b"tmpfs", os.fsencode(directory), b"tmpfs", 0, options) == 0


class Server:
    """A PostgreSQL on a disk of its own, from `start` until `remove`."""

    def __init__(self, megabytes: int, port: int | None = None) -> None:
        self.programs = find_programs(None)
        self.disk = Disk(megabytes)
        self.clock = Clock(self.disk.directory / "clock")
        self.user = server_user()
        self.home = self.disk.directory / "server"
        self.home.mkdir()
        if self.user:
            shutil.chown(self.home, self.user)
        self.port, self.password = port or free_port(), secrets.token_hex()
        self.fill_directory()

    def fill_directory(self) -> None:
        initialise(self.programs, self.home, self.user, self.password)

    def url(self, port: int | None = None, name: str = "chaos:harness") -> str:
        """Return the address of the database; `port`: that of a proxy before it."""
        return (
            f"postgresql://postgres:{self.password}@127.0.0.1:{port or self.port}"
            f"/postgres?sslmode=disable&application_name={name}&connect_timeout=5"
        )

    def connect(self, name: str = "chaos:harness") -> psycopg.Connection:
        return psycopg.connect(self.url(name=name), autocommit=True)

    def make_owner(self) -> None:
        """Give the database to an ordinary role, as which the project connects."""
        with self.connect() as connection:
            connection.execute(
                f"CREATE ROLE {OWNER} LOGIN CREATEDB PASSWORD '{self.password}'"
            )
            connection.execute(f"ALTER DATABASE postgres OWNER TO {OWNER}")

    def start(self) -> None:
        settings = SETTINGS | {"port": str(self.port)}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        done = self.control("-l", self.home / "log", "-o", options, "start")
        if done.returncode:
            raise Unusable(f"PostgreSQL does not start: {self.last_words()}")

    def stop(self, mode: str) -> None:
        """Stop it; "immediate" is how a power cut looks to what comes after."""
        self.control("-m", mode, "stop")

    def control(self, *arguments) -> subprocess.CompletedProcess:
        command = [self.programs / "pg_ctl", "-D", self.home / "data", "-w"]
        return subprocess.run(
            [*command, *arguments],
            user=self.user,
            env={**os.environ, **self.clock.environment},
            cwd="/",
            timeout=90,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def is_up(self) -> bool:
        try:
            with self.connect() as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def bring_up(self, timeout: float = 60) -> None:
        """Start it if a fault has ended it, and wait until it answers."""
        deadline = time.monotonic() + timeout
        while not self.is_up():
            if time.monotonic() > deadline:
                raise Unusable(f"PostgreSQL stays away: {self.last_words()}")
            if self.control("status").returncode:
                self.start()
            time.sleep(0.1)

    def last_words(self) -> str:
        log = (self.home / "log").read_text(errors="replace")
        return "\n".join(log.splitlines()[-5:])

    def remove(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop("immediate")
        self.disk.remove()
