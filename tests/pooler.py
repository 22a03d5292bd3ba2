"""A PgBouncer in transaction mode: every transaction gets another session.

    python -m tests.pooler around tests/worker tests/process
    python -m tests.pooler none tests/worker tests/process

This starts a PostgreSQL and a PgBouncer before it, and runs pytest with the arguments
that follow. All connections of tests and workers go through the pooler. LISTEN goes
around it, or there is none: then workers poll each tenth of a second, whatever a test
says. Tests that need what a pooler cannot give have the mark `direct`; those that need
LISTEN, or a poll of their own, the mark `listening`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}{secret}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 1000
"""


class NotInstalled(Exception):
    """There is no PgBouncer on this machine."""


def program() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise NotInstalled("pgbouncer is not installed.")
    return found


@contextmanager
def pooling(url: str, sessions: int) -> Iterator[str]:
    """Run a PgBouncer before the server of the URL; give its own URL."""
    server = conninfo_to_dict(url)
    password = server.get("password")
    own_port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as configuration:
        configuration.write(
            CONFIGURATION.format(
                **{"port": 5432, **server},
                own_port=own_port,
                sessions=sessions,
                secret=f" password='{password}'" if password else "",
            )
        )
        configuration.flush()
        os.chmod(configuration.name, 0o644)
        process = subprocess.Popen(
            [program(), "-q", configuration.name],
            user="nobody" if os.geteuid() == 0 else None,  # it refuses to be root
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        pooled = f"postgresql://{server['user']}@127.0.0.1:{own_port}/postgres"
        try:
            wait_for_answer(pooled)
            yield pooled
        finally:
            process.terminate()
            process.wait(60)


def wait_for_answer(url: str) -> None:
    deadline = time.monotonic() + 60
    while not answers(url):
        if time.monotonic() > deadline:
            raise TimeoutError("PgBouncer does not answer.")
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.OperationalError:
        return False
    return True


def main(listening: str, *arguments: str) -> int:
    from benchmarks.server import running_server

    with running_server() as server:
        server.connection.execute("ALTER SYSTEM SET fsync = off")
        server.connection.execute("SELECT pg_reload_conf()")
        # Each client of the pooler becomes the owner. The harness goes around.
        os.environ["DATABASE_URL"] = server.url
        sys.path.append(str(ROOT / "example_project"))
        from tests import harness  # it reads the variable

        harness.make_owner(server.connection)
        owner = {"user": harness.OWNER, "password": harness.OWNER}
        with pooling(make_conninfo(server.url, **owner), sessions=30) as url:
            wishes = {
                "DATABASE_URL": url,
                "PGJOBS_TEST_POOLER": listening,
                "PGJOBS_TEST_DIRECT": server.url,
            }
            # Its sessions would keep the tests' databases from being dropped.
            command = [sys.executable, "-m", "pytest", "--reuse-db", *arguments]
            return subprocess.call(command, cwd=ROOT, env={**os.environ, **wishes})


if __name__ == "__main__":
    if sys.argv[1:2] not in (["around"], ["none"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
