"""A Redis as it comes: snapshots now and then, no log of writes, so not durable."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

from .environments import NotInstalled
from .ports import free_port

LONGEST_START = 10.0  # seconds


class RedisServer:
    """A Redis of one's own, empty, until `stop`."""

    def __init__(self) -> None:
        if not shutil.which("redis-server"):
            raise NotInstalled("no redis-server (apt install redis-server)")
        port, password = free_port(), secrets.token_hex()
        self.url = f"redis://:{password}@127.0.0.1:{port}/0"
        self.port, self.password = port, password
        self.directory = tempfile.mkdtemp(prefix="pgjobs-benchmark-redis-")
        self.process = subprocess.Popen(
            ["redis-server", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.process.stdin.write(
            f"bind 127.0.0.1\nport {port}\nrequirepass {password}\n"
            f"dir {self.directory}\nsave 3600 1 300 100 60 10000\n"
        )
        self.process.stdin.close()
        self.wait_for(port)

    def wait_for(self, port: int) -> None:
        deadline = time.monotonic() + LONGEST_START
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self.process.pid

    def commands(self) -> int:
        """Return how many commands were given; each time, this takes two more."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), "INFO", "stats"],
            env={**os.environ, "REDISCLI_AUTH": self.password},
            capture_output=True,
            text=True,
            check=True,
        )
        _, _, after = done.stdout.partition("total_commands_processed:")
        return int(after.split()[0])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)
