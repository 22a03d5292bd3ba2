"""Two servers with streaming replication: a primary, and a standby that takes over."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from .server import Server, Unusable

PATIENCE = 60.0  # seconds, for a standby to follow
SYNCHRONOUS = "synchronous_standby_names"


class Standby(Server):
    """A copy of another server, which follows it."""

    def __init__(self, primary: Server, megabytes: int, port: int | None = None):
        self.primary = primary
        super().__init__(megabytes, port)

    def fill_directory(self) -> None:
        self.password = self.primary.password
        command = [self.programs / "pg_basebackup", "-D", self.home / "data", "-R"]
        address = self.primary.url().replace("chaos:harness", "standby")
        done = subprocess.run(
            [*command, "-c", "fast", "-d", address],
            user=self.user,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unusable(f"pg_basebackup failed: {done.stderr}")
        self.wait_for_none()

    def wait_for_none(self) -> None:
        """Forget the standby that the copied server waits for: it may soon be alone."""
        path = self.home / "data/postgresql.auto.conf"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if SYNCHRONOUS not in line))

    def promote(self) -> None:
        if self.control("promote").returncode:
            raise Unusable(f"The standby is not promoted: {self.last_words()}")


class Pair:
    """What a run takes for its server: whichever of the two is the primary.

    Each new standby has the port of the server that it replaces, so that the two
    addresses that programs know stay the same.
    """

    def __init__(self, megabytes: int, is_synchronous: bool) -> None:
        self.megabytes = megabytes
        self.is_synchronous = is_synchronous
        self.primary = Server(megabytes)
        self.password = self.primary.password
        self.standby: Standby | None = None

    @property
    def port(self) -> int:
        return self.primary.port

    @property
    def ports(self) -> str:
        """Return both ports as libpq has them; their order has no meaning."""
        known = (self.primary.port, self.standby.port)
        return ",".join(map(str, sorted(known)))

    def connect(self, name: str = "chaos:harness") -> psycopg.Connection:
        return self.primary.connect(name)

    def start(self) -> None:
        self.primary.start()
        self.add_standby()

    def make_owner(self) -> None:
        self.primary.make_owner()

    def add_standby(self, port: int | None = None) -> None:
        """Make a standby; return once it follows, and is waited for if it must be."""
        self.standby = Standby(self.primary, self.megabytes, port)
        self.standby.start()
        if self.is_synchronous:
            with self.connect() as connection:
                connection.execute(f"ALTER SYSTEM SET {SYNCHRONOUS} = '*'")
                connection.execute("SELECT pg_reload_conf()")
        wanted = "sync_state = 'sync'" if self.is_synchronous else "true"
        self.wait_until(f"state = 'streaming' AND {wanted}")

    def wait_until(self, condition: str, patience: float = PATIENCE) -> None:
        query = f"SELECT 1 FROM pg_stat_replication WHERE {condition}"
        deadline = time.monotonic() + patience
        with self.connect() as connection:
            while not connection.execute(query).fetchone():
                if time.monotonic() > deadline:
                    raise Unusable("The standby does not follow.")
                time.sleep(0.05)

    def pause_replication(self) -> int:
        """Stop the process that sends to the standby; return its id."""
        with self.connect() as connection:
            query = "SELECT pid FROM pg_stat_replication"
            ((pid,),) = connection.execute(query).fetchall()
        os.kill(pid, signal.SIGSTOP)
        return pid

    def lose_primary(self, sender: int) -> None:
        """End the primary as a power cut does, and what it has not sent with it."""
        os.kill(postmaster_of(self.primary.home), signal.SIGQUIT)
        os.kill(sender, signal.SIGKILL)
        self.primary.stop("immediate")

    def take_over(self) -> float:
        """Promote the standby, whose primary is lost; return when that began."""
        lost, self.primary = self.primary, self.standby
        begun = time.time()
        self.primary.promote()
        lost.remove()
        return begun

    def bring_up(self) -> None:
        self.primary.bring_up()

    def remove(self) -> None:
        for server in filter(None, (self.standby, self.primary)):
            if server.home.exists():
                server.remove()


def postmaster_of(home: Path) -> int:
    return int((home / "data/postmaster.pid").read_text().split()[0])
