import os
import subprocess

import psycopg
import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from hypothesis import settings

from pgjobs import conf
from pgjobs.models import Schedule, Subscription, Worker
from pgjobs.tasks import events, registry
from tests.processes import AROUND, ROOT, WorkerProcess, database_url, wait_for
from tests.settings import POOLER

# The same examples in each run: a rare one must not keep another change from landing.
# PGJOBS_EXPLORE=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("exploring" if "PGJOBS_EXPLORE" in os.environ else "repeatable")


# Whatever else a test sets.
conf.SETTINGS.update(
    {name: conf.SETTINGS[name]._replace(default=each) for name, each in AROUND.items()}
)


def pytest_collection_modifyitems(items):
    """Skip what a pooler cannot give, where there is one."""
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
    """Let the tests' own server save nothing but time.

    To drop a database takes a checkpoint, which waits for the disk and all writers.
    """
    if "DATABASE_URL" not in os.environ and not hasattr(config, "workerinput"):
        with psycopg.connect(database_url(), autocommit=True) as server:
            server.execute("ALTER SYSTEM SET fsync = off")
            server.execute("SELECT pg_reload_conf()")


def untracked_files() -> set[str]:
    """Return what git does not know; nothing where the checkout is not git's."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return set()
    return set(found.stdout.splitlines())


FILES_BEFORE = pytest.StashKey[set[str]]()


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        session.config.stash[FILES_BEFORE] = untracked_files()


def pytest_sessionfinish(session):
    """Fail if tests have left files in the checkout."""
    before = session.config.stash.get(FILES_BEFORE, None)
    if before is not None and (left := untracked_files() - before):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(
            f"\nNew in the checkout: {', '.join(sorted(left))}", red=True
        )


@pytest.fixture(autouse=True)
def same_registry_afterwards():
    """Forget the tasks that a test declares."""
    before, replaced = dict(registry.tasks), registry.replaced[:]
    yield
    registry.tasks, registry.replaced = before, replaced
    registry.forget_names()


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
    events.store_declared("default")


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
