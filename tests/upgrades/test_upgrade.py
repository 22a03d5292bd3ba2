"""A release is upgraded to what is checked out, while its workers and producers run."""

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import psycopg
import pytest

from tests import harness
from tests.processes import LONGEST_TEST, ROOT, database_url, wait_for
from tests.settings import OWNER, TEST_DATABASE

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
# Another commit to begin with, for a release that is about to be made.
WANTED = os.environ.get("PGJOBS_TEST_UPGRADE_FROM")
# Everything that `migrate` makes, as PostgreSQL describes it.
CATALOGUE = """
SELECT 'column', attrelid::regclass || '.' || attname,
    concat_ws(' ', atttypid::regtype, attnotnull, pg_get_expr(adbin, adrelid))
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid::regclass::text ~ '^pgjobs_' AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'function', oid::regprocedure::text, pg_get_functiondef(oid)
FROM pg_proc WHERE proname ~ '^pgjobs_' AND prokind IN ('f', 'p')
UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid)
FROM pg_trigger WHERE tgname ~ '^pgjobs_' AND NOT tgisinternal
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid::regclass::text ~ '^pgjobs_' AND contype <> 'n'
UNION ALL SELECT 'index', indexname, indexdef
FROM pg_indexes WHERE tablename ~ '^pgjobs_'
ORDER BY 1, 2
"""
# The schedule fires until the last worker stops: its latest job may not have begun.
JOBS = "FROM pgjobs_job WHERE task <> 'project.tick'"
# In the log of a worker. A warning is none of them: where a session holds a lock for
# long, as on a busy machine, the worker says that it will try again.
FAULTS = (" ERROR ", " CRITICAL ", " FAILED ", " RETRY ", "Traceback")
# On a busy machine a worker may give up a statement that a migration's lock delays, and
# try it again.
WAITED = "the next try in"
BY_LOCK = "canceling statement due to lock timeout"


def last_release() -> str:
    """Return the commit of the last release; until there is one, the latest commit."""
    return WANTED or ["HEAD", *named_releases()][-1]


def named_releases() -> list[str]:
    """Return the commits of the releases, the oldest first."""
    lines = (HERE / "releases.txt").read_text().splitlines()
    return [line.split()[1] for line in lines if line and not line.startswith("#")]


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """The package as it was released."""
    return package_of(last_release(), tmp_path_factory.mktemp("release"))


def first_release(directory: Path) -> Path:
    return package_of(named_releases()[0], directory / "first")


def package_of(commit: str, directory: Path) -> Path:
    """Put the package as it was in a commit into a directory; return that."""
    if not (ROOT / ".git").exists():
        pytest.skip("there is no history here")
    if git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
        pytest.skip("this clone has only the end of the history")
    done = git("archive", commit, "pgjobs")
    assert done.returncode == 0, f"{commit} is not in the history: fetch all of it."
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


@contextmanager
def fresh_database(name: str) -> Iterator[str]:
    """Make a database for the length of a block; give its URL."""
    name = f"{TEST_DATABASE}_{name}"
    with psycopg.connect(database_url(), autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield database_url().removesuffix("/postgres") + f"/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


class Site:
    """A project with one version of pgjobs, on a database."""

    def __init__(self, package: Path, url: str, directory: Path):
        self.directory = directory
        paths = [str(package), str(HERE)]
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            "PYTHONPATH": os.pathsep.join(paths),
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_URL": url,
        }

    def start(self, log: str, *command: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=(self.directory / log).open("w"),
            stderr=subprocess.STDOUT,
        )

    def migrate(self, **changes: str) -> None:
        assert self.code_of_migrate(**changes) == 0, self.printed("migrate.log")

    def code_of_migrate(self, **changes: str) -> int:
        """Run `migrate`; `changes`: of the environment. Return the exit code."""
        self.environment, before = self.environment | changes, self.environment
        process = self.start("migrate.log", "django", "migrate", "-v", "0")
        self.environment = before
        return process.wait(LONGEST_TEST * 2)

    def migrate_as_superuser(self) -> None:
        """Migrate as 0.9.0 needed it, and give everything to the owner."""
        url = self.environment["DATABASE_URL"]
        database = url.rpartition("/")[2]
        attributes = "SUPERUSER LOGIN PASSWORD 'secret'"
        with harness.role("installer", attributes, database) as name:
            as_installer = url.replace(f"{OWNER}:{OWNER}@", f"{name}:secret@")
            self.migrate(DATABASE_URL=as_installer, PGAPPNAME=harness.APPLICATION)
            with harness.connect(database) as server:
                server.execute(f"REASSIGN OWNED BY {name} TO {OWNER}")

    def printed(self, log: str) -> str:
        return (self.directory / log).read_text()

    def faults(self, log: str) -> list[str]:
        lines = self.printed(log).splitlines()
        return [line for line in lines if is_fault(line)]


def is_fault(line: str) -> bool:
    has_waited = WAITED in line and BY_LOCK in line
    return not has_waited and any(fault in line for fault in FAULTS)


def count(url: str, what: str) -> int:
    with psycopg.connect(url) as own:
        return own.execute(f"SELECT count(*) {what}").fetchone()[0]


def finished(url: str) -> int:
    return count(url, f"{JOBS} AND status = 'SUCCESSFUL'")


def catalogue(url: str) -> list[tuple]:
    with psycopg.connect(url) as own:
        return own.execute(CATALOGUE).fetchall()


def test_release_is_upgraded_under_load(release, tmp_path):
    with fresh_database("upgrade") as url:
        old, new = Site(release, url, tmp_path), Site(ROOT, url, tmp_path)
        old.migrate_as_superuser()
        started = {}

        def start(site: Site, log: str, *command: str) -> None:
            started[log] = site.start(log, *command)

        def end(log: str) -> None:
            started[log].stdin.close()  # for a producer
            if "producer" not in log:
                started[log].send_signal(signal.SIGTERM)
            assert started[log].wait(LONGEST_TEST) == 0, new.printed(log)[-3_000:]

        try:
            upgrade(new, old, start, end, url)
        finally:
            for process in started.values():
                process.kill()


def upgrade(new: Site, old: Site, start, end, url: str) -> None:
    """Migrate, deploy and stop the old release, while jobs come in all the time."""
    start(old, "old.log", "django", "runjobs")
    start(old, "old producer.log", "project.load")
    wait_for(lambda: finished(url) > 50, "the old release works")
    new.migrate()
    before = finished(url)
    wait_for(lambda: finished(url) > before + 50, "the old release goes on")
    start(new, "new.log", "django", "runjobs")
    # A worker that still starts would end by the signal itself.
    wait_for(
        lambda: count(url, "FROM pgjobs_worker") == 2, "the new one works", LONGEST_TEST
    )
    start(new, "new producer.log", "project.load")
    before = finished(url)
    wait_for(lambda: finished(url) > before + 50, "both work side by side")
    for log in ("old producer.log", "old.log", "new producer.log"):
        end(log)
    unfinished = f"{JOBS} AND finished_at IS NULL"
    wait_for(lambda: not count(url, unfinished), "all have ended", 2 * LONGEST_TEST)
    end("new.log")
    assert count(url, f"{JOBS} AND status <> 'SUCCESSFUL'") == 0
    assert count(url, "FROM pgjobs_job WHERE failures + crashes > 0") == 0
    assert old.faults("old.log") == []
    assert new.faults("new.log") == []


def test_upgraded_release_has_what_a_new_installation_has(release, tmp_path):
    with fresh_database("upgraded") as upgraded, fresh_database("new") as new:
        Site(release, upgraded, tmp_path).migrate_as_superuser()
        for url in (upgraded, new):
            Site(ROOT, url, tmp_path).migrate()
        assert catalogue(upgraded) == catalogue(new)


def test_owner_whose_migration_of_the_first_release_was_refused_goes_on(tmp_path):
    with fresh_database("refused") as refused, fresh_database("new") as new:
        first = first_release(tmp_path)
        assert Site(first, refused, tmp_path).code_of_migrate() != 0
        for url in (refused, new):
            Site(ROOT, url, tmp_path).migrate()
        assert catalogue(refused) == catalogue(new)


def test_owner_who_restored_a_dump_of_the_first_release_gets_what_it_lacks(tmp_path):
    """Two functions of 0.9.0 could be restored by superusers alone."""
    with fresh_database("restored") as restored, fresh_database("new") as new:
        Site(first_release(tmp_path), restored, tmp_path).migrate_as_superuser()
        with psycopg.connect(restored) as own:
            own.execute("DROP FUNCTION pgjobs_record, pgjobs_move")
        for url in (restored, new):
            Site(ROOT, url, tmp_path).migrate()
        assert catalogue(restored) == catalogue(new)
