import gc
import os
import subprocess
import sys
from collections import Counter

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.operations import DatabaseOperations
from django.utils import translation
from hypothesis import settings

from pgjobs import conf
from pgjobs.features import FEATURES
from pgjobs.models import Worker
from pgjobs.queue import admitting
from pgjobs.tasks import registry
from pgjobs.worker import claimer, stopping
from tests import harness
from tests.actors import execute
from tests.processes import AROUND, ROOT, WorkerProcess, wait_for
from tests.settings import POOLER, SCHEMA
from tests.support import (
    emptying,
    hung,
    kept_connections,
    kept_rows,
    superusers,
)
from tests.support.known_alias import known_alias
from tests.support.second_database import second_database  # noqa: F401

pytest_plugins = ["tests.of_features" if FEATURES else "tests.without_features"]
# Without it each process that a test starts, and each of those that run tests, would
# compile all modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

DatabaseOperations.sql_flush = emptying.sql_flush
DatabaseOperations.execute_sql_flush = emptying.execute_sql_flush
kept_rows.install()

# The same examples in each run: a rare one must not keep another change from landing.
# PGJOBS_EXPLORE=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("exploring" if "PGJOBS_EXPLORE" in os.environ else "repeatable")


# Whatever else a test sets.
conf.SETTINGS.update(
    {name: conf.SETTINGS[name]._replace(default=each) for name, each in AROUND.items()}
)


# Of xdist's own order, the files with most tests first, those come last that take
# longest: a few tests with processes and servers. So these begin.
LONGEST = (
    "settings_matrix/test_matrix.py",
    "failover/test_failover.py",
    "database/test_hostile_values.py",
    "upgrades/test_upgrade.py",
    "process/test_supervisor.py",
    "admin/test_browser.py",
    "admin/test_admin_hostile.py",
    "model/test_model.py",
    "test_example_project.py",
    "process/test_poison.py",
    "features/exporters/test_collector.py",
    "features/events/test_events.py",
    "queue/test_admission.py",
    "machines/test_claim_machine.py",
    "machines/test_flow_control_machine.py",
    "machines/test_flow_machine.py",
    "machines/test_prefetch_machine.py",
    "machines/test_state_machine.py",
    "machines/test_unique_machine.py",
    "process/test_rescue.py",
    "process/test_shutdown.py",
    "process/test_locks_of_workers.py",
    "process/test_chains_of_workers.py",
    "worker/test_clean_threads.py",
    "worker/test_isolation.py",
    "features/test_isolation.py",
    "features/moving/test_moving.py",
    "features/testing/test_sample_project.py",
    "test_benchmarks.py",
)


def pytest_collection_modifyitems(config, items):
    skip_what_a_pooler_cannot_give(items)
    if hasattr(config, "workerinput"):
        begin_with_the_longest(items)


def begin_with_the_longest(items) -> None:
    """Let no file that takes long run alone at the end, beside an idle core."""
    sizes = Counter(map(file_of, items))

    def rank(item) -> tuple[int, int]:
        file = file_of(item)
        first = LONGEST.index(file) if file in LONGEST else len(LONGEST)
        return first, -sizes[file]

    items.sort(key=rank)


def file_of(item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def skip_what_a_pooler_cannot_give(items) -> None:
    missing = {}
    if POOLER:
        missing["direct"] = "needs sessions of the server's own"
    if POOLER == "none":
        missing["listening"] = "needs LISTEN, or polls at times of its own"
    for item in items:
        for name, reason in missing.items():
            if marker := item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(marker.kwargs.get("why", reason)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Begin with a connection that works, whatever a test before has cut."""
    if POOLER:
        connections.close_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let one test that hangs be one failure, which shows what it waited for."""
    report = yield
    if hung.is_hung(call):
        report.sections.append(("Sessions of the database", hung.sessions()))
        hung.end_sessions()
    return report


def pytest_configure(config):
    """Let the tests' own server write nothing to disk in order to be fast.

    Dropping a database takes a checkpoint, which waits for the disk and all writers.
    """
    leave_out_what_is_slow(config)
    if hasattr(config, "workerinput"):
        return
    with harness.connect() as server:
        harness.make_owner(server)
        if SCHEMA != "public":
            harness.make_template(server)
        if "DATABASE_URL" not in os.environ:
            server.execute("ALTER SYSTEM SET fsync = off")
            server.execute("SELECT pg_reload_conf()")


def leave_out_what_is_slow(config) -> None:
    """Let `pytest` alone answer within minutes. CI runs the rest by `-m slow`."""
    asked_for_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if asked_for_all and not config.option.markexpr and not config.option.keyword:
        config.option.markexpr = "not slow"


def pytest_collection_finish():
    """Let the garbage collector pass over the thousands of tests that stay."""
    gc.collect()
    gc.freeze()


def untracked_files() -> set[str]:
    """Return the files that git does not know; none outside of a git checkout."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return set()
    return set(found.stdout.splitlines())


FILES_BEFORE = pytest.StashKey[set[str]]()
WATCH = pytest.StashKey[superusers.Watch]()


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.stash[FILES_BEFORE] = untracked_files()
        session.config.stash[WATCH] = superusers.Watch().__enter__()


def pytest_sessionfinish(session):
    """Fail if tests have left files in the checkout, or worked as a superuser."""
    stash = session.config.stash
    if FILES_BEFORE in stash and (left := untracked_files() - stash[FILES_BEFORE]):
        fail(session, f"New in the checkout: {', '.join(sorted(left))}")
    if WATCH in stash:
        stash[WATCH].__exit__()
        for stranger in sorted(stash[WATCH].found):
            fail(session, f"A superuser who is not the harness: {stranger}")


def fail(session, why: str) -> None:
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"\n{why}", red=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        kept_connections.install()
    yield
    harness.let_go()


@pytest.fixture(autouse=True)
def same_registry_afterwards():
    """Forget the tasks that a test declares."""
    before, replaced = dict(registry.tasks), registry.replaced[:]
    yield
    registry.tasks, registry.replaced = before, replaced
    registry.forget_names()


@pytest.fixture(autouse=True)
def no_language_afterwards():
    """Forget the language of a page that a test has looked at."""
    yield
    translation.deactivate()


@pytest.fixture
def unhurried(monkeypatch):
    """Let each admission come to its end, however busy the machine is."""
    monkeypatch.setattr(admitting, "ADMISSION_SECONDS", 60.0)


@pytest.fixture
def start_worker(transactional_db):
    """Start worker processes; returns once they are registered."""
    started = []

    def start(*arguments: str, registered: bool = True, **how):
        known = set(Worker.objects.values_list("pid", flat=True))
        worker = WorkerProcess(*arguments, **how)
        started.append(worker)
        if registered:
            assert worker.pid not in known
            wait_for(
                lambda: (
                    Worker.objects.filter(pid=worker.pid).exists()
                    or not worker.is_alive
                ),
                "the worker is registered",
            )
            assert worker.is_alive, worker.printed
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()
        worker.log.close()


@pytest.fixture
def other(monkeypatch):
    """A second alias, which leads to the same database."""
    ensure_connection = BaseDatabaseWrapper.ensure_connection

    def connect(own):
        """Connect without asking the test runner, which knows one alias only."""
        if own.alias == "other" and own.connection is None:
            own.connect()
        else:
            ensure_connection(own)

    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", connect)
    with known_alias("other", connections["default"].settings_dict):
        yield


@pytest.fixture
def refuse():
    """Let the database refuse changes of jobs of `tests.echo`, given a condition."""

    def refuse(condition: str, event: str = "UPDATE") -> None:
        result = "OLD" if event == "DELETE" else "NEW"
        execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF OLD.task = 'tests.echo' AND {condition}"
            f" THEN RAISE 'refused'; END IF; RETURN {result}; END $$"
        )
        execute(
            f"CREATE TRIGGER aaa_refuse BEFORE {event} ON pgjobs_job"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )

    yield refuse
    execute("DROP FUNCTION IF EXISTS refuse() CASCADE")


@pytest.fixture
def eager(monkeypatch):
    """Let workers prefetch as many jobs as they may, and keep them."""

    def take_for_short(capacity):
        capacity.seconds = 0.001

    monkeypatch.setattr(claimer, "PREFETCH_SECONDS", 60.0)
    monkeypatch.setattr(claimer.Capacity, "measure", take_for_short)
    monkeypatch.setattr(claimer.Capacity, "brought", lambda *_: None)
    monkeypatch.setattr(stopping, "LONGEST_WAIT", 600.0)
