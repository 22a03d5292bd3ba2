"""Two servers that Debian's Patroni looks after, with an etcd of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import psycopg

from benchmarks.ports import free_port
from benchmarks.server import Unusable

from .pair import Pair, postmaster_of
from .server import SETTINGS, Disk, Server

# Seconds: the shortest that Patroni takes. A leader that is silent for `ttl` has lost.
TIMES = {"ttl": 20, "loop_wait": 2, "retry_timeout": 5}
START = 90.0  # seconds, for Patroni to make a server, or to copy one


def program(name: str) -> str:
    if found := shutil.which(name):
        return found
    raise Unusable(f"{name} is not installed: apt install patroni etcd-server.")


class Process:
    """A program that runs beside the servers, as their user."""

    def __init__(self, directory, user: str | None):
        self.directory, self.user = directory, user
        self.process: subprocess.Popen | None = None

    def run(self, *command: object) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                list(map(str, command)),
                user=self.user,
                cwd=self.directory,
                env={"PATH": os.environ["PATH"], "HOME": str(self.directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)


class Store(Process):
    """The etcd in which the nodes find out which of them leads."""

    def start(self) -> str:
        """Return its address."""
        own, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.run(
            *(program("etcd"), "--data-dir", self.directory / "etcd"),
            *("--listen-client-urls", own, "--advertise-client-urls", own),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )
        return own.removeprefix("http://")


class Node(Server):
    """A PostgreSQL that a Patroni starts, stops, promotes and lets follow."""

    def __init__(self, name: str, megabytes: int, password: str):
        self.name = name
        super().__init__(megabytes)
        self.password = password
        self.patroni = Process(self.home, self.user)

    def fill_directory(self) -> None:
        """Leave that to Patroni."""

    def configure(self, store: str, is_synchronous: bool) -> None:
        (self.home / "patroni.yml").write_text(
            json.dumps(configuration(self, store, is_synchronous))
        )

    def start(self) -> None:
        self.patroni.run(program("patroni"), self.home / "patroni.yml")

    def lose(self) -> None:
        """End both as a power cut does."""
        self.patroni.end(signal.SIGKILL)
        os.kill(postmaster_of(self.home), signal.SIGQUIT)
        self.stop("immediate")

    def leads(self) -> bool:
        """Whether it takes writes."""
        try:
            with self.connect() as connection:
                query = "SELECT NOT pg_is_in_recovery()"
                return connection.execute(query).fetchone()[0]
        except psycopg.Error:
            return False

    def remove(self) -> None:
        self.patroni.end(signal.SIGTERM)
        super().remove()


def configuration(node: Node, store: str, is_synchronous: bool) -> dict:
    """Return what a Patroni reads; JSON is YAML, too."""
    rest, own = (f"127.0.0.1:{port}" for port in (free_port(), node.port))
    accounts = ("superuser", "postgres"), ("replication", "standby")
    return {
        "scope": "chaos",
        "name": node.name,
        "restapi": {"listen": rest, "connect_address": rest},
        "etcd3": {"host": store},
        "bootstrap": {
            "dcs": {
                **TIMES,
                "synchronous_mode": is_synchronous,
                "postgresql": {"use_pg_rewind": True, "parameters": SETTINGS},
            },
            "initdb": ["data-checksums", {"encoding": "UTF8"}],
        },
        "postgresql": {
            "listen": own,
            "connect_address": own,
            "data_dir": str(node.home / "data"),
            "bin_dir": str(node.programs),
            "authentication": {
                kind: {"username": name, "password": node.password}
                for kind, name in accounts
            },
            "pg_hba": [
                f"host {databases} all 127.0.0.1/32 scram-sha-256"
                for databases in ("all", "replication")
            ],
        },
    }


class Cluster(Pair):
    """What a run takes for its server: whichever of the two nodes leads."""

    def __init__(self, megabytes: int, is_synchronous: bool) -> None:
        self.is_synchronous = is_synchronous
        self.disk = Disk(100)
        self.store = Store(self.disk.directory, None)
        self.primary = Node("one", megabytes, "secret-of-the-chaos")
        self.standby = Node("two", megabytes, self.primary.password)
        self.password = self.primary.password

    def start(self) -> None:
        address = self.store.start()
        for node in (self.primary, self.standby):
            node.configure(address, self.is_synchronous)
        self.primary.start()
        wait_for(self.primary.leads, "Patroni makes no server", self.primary)
        self.add_standby()

    def add_standby(self, port: int | None = None) -> None:
        """Let the other node follow, from what it has or from nothing."""
        self.standby.start()
        wanted = "sync_state = 'sync'" if self.is_synchronous else "true"
        condition = f"application_name = '{self.standby.name}' AND {wanted}"
        self.wait_until(f"state = 'streaming' AND {condition}", START)

    def lose_primary(self, sender: int) -> None:
        os.kill(sender, signal.SIGKILL)
        self.primary.lose()

    def take_over(self) -> float:
        """Wait until the standby takes writes, whenever its Patroni thinks fit."""
        wait_for(self.standby.leads, "The standby is not promoted", self.standby)
        self.primary, self.standby = self.standby, self.primary
        return time.time()

    def bring_up(self) -> None:
        wait_for(self.primary.leads, "The leader is away", self.primary)

    def remove(self) -> None:
        for node in (self.standby, self.primary):
            node.remove()
        self.store.end(signal.SIGTERM)
        self.disk.remove()


def wait_for(condition, what: str, node: Node) -> None:
    deadline = time.monotonic() + START
    while not condition():
        if time.monotonic() > deadline:
            raise Unusable(f"{what}: {node.last_words()}")
        time.sleep(0.05)
