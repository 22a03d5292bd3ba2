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
from pgjobs.models import Schedule, Subscription, Worker
from pgjobs.queue import admitting
from pgjobs.tasks import registry
from tests import (
    declared_rows,
    emptying,
    harness,
    kept_connections,
    kept_rows,
    superusers,
)
from tests.declared import store_subscriptions
from tests.processes import AROUND, ROOT, WorkerProcess, wait_for
from tests.settings import POOLER, SCHEMA

# Without it each process that a test starts, and each of those that run tests, would
# compile all modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

DatabaseOperations.sql_flush = emptying.sql_flush
DatabaseOperations.execute_sql_flush = emptying.execute_sql_flush
declared_rows.install()
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
    "telemetry/test_collector.py",
    "declaring/test_events.py",
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
    "databases/test_moving.py",
    "testing/test_sample_project.py",
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
def no_schedules(db):
    """Begin without the schedules of the example; none is stored nor declared."""
    registry.tasks = {
        origin: task for origin, task in registry.tasks.items() if not task.recurrences
    }
    Schedule.objects.all().delete()


@pytest.fixture
def no_subscriptions(db):
    """Begin without the handlers of the example; none is stored nor declared."""
    registry.tasks = {
        origin: task
        for origin, task in registry.tasks.items()
        if not task.subscriptions
    }
    Subscription.objects.all().delete()


@pytest.fixture
def stored_handlers(db):
    """Store the handlers of the example, whose rows a committing test has emptied."""
    store_subscriptions("default")


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
    settings = connections["default"].settings_dict
    monkeypatch.setitem(connections.databases, "other", settings)
    yield
    connections["other"].close()
    del connections["other"]
