"""Each system check finds its fault, and names a cure."""

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db import connections

from pgjobs import task
from tests import harness
from tests.support.checks import found


@pytest.fixture
def database(settings):
    """Change the entry of the queue's database."""

    def change(**changes):
        entry = connections["default"].settings_dict
        before.append({name: entry.get(name) for name in changes})
        entry.update(changes)

    before: list[dict] = []
    yield change
    for each in reversed(before):
        connections["default"].settings_dict.update(each)


def test_a_good_set_up_has_no_messages():
    assert found() == {}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([1], "PGJOBS must be a dict, got [1]."),
        ({"TASK_MODULES": "a.string"}, "PGJOBS['TASK_MODULES'] must be a list"),
        ({"TASK_MODULES": [5]}, "PGJOBS['TASK_MODULES'] must be a non-empty string"),
        ({"DATABASE": 5}, "PGJOBS['DATABASE'] must be a non-empty string"),
    ],
    ids=repr,
)
def test_wrong_settings_are_a_message_of_the_command_and_no_traceback(given, complaint):
    run = checking(given)
    assert run.returncode == 1
    assert f"(pgjobs.E001) {complaint}" in run.stderr
    assert "Traceback" not in run.stderr


def test_command_runs_the_checks_of_features():
    run = checking({"EVENT_RETENTION": 3_600, "UNHANDLED_EVENT_GRACE": 7_200})
    assert "(pgjobs.E022)" in run.stderr


def checking(given) -> subprocess.CompletedProcess[str]:
    """Run the command `check` in a process of its own, with settings of pgjobs."""
    return subprocess.run(
        [sys.executable, "-m", "django", "check"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PGJOBS_TEST_SETTINGS": json.dumps(given),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_unknown_setting_is_named_with_its_nearest_match(settings):
    settings.PGJOBS = {"POLL_INTERVALL": 3}
    assert "POLL_INTERVALL" in found()["pgjobs.E001"]
    assert "Did you mean 'POLL_INTERVAL'?" in found()["pgjobs.E001"]


@pytest.mark.parametrize(
    "name, value",
    [
        ("CONCURRENCY", 0),
        ("CONCURRENCY", True),
        ("CONCURRENCY", "4"),
        ("POLL_INTERVAL", -1),
        ("POLL_INTERVAL", 0),
        ("POLL_INTERVAL", float("nan")),
        ("LEASE_DURATION", timedelta(seconds=-30)),
        ("TASK_MODULES", "shop.jobs"),
        ("LISTEN", "host=db"),
        ("RETENTION", 3600),
        ("RETENTION", {"DONE": 3600}),
        ("RETENTION", {"FAILED": -1}),
        ("MAX_ARGUMENT_BYTES", 1.5),
        ("DATABASE", ""),
    ],
)
def test_a_wrong_value_is_named_with_its_rule(settings, name, value):
    settings.PGJOBS = {name: value}
    assert f"PGJOBS[{name!r}] " in found()["pgjobs.E001"]


def test_pgjobs_must_be_a_dict(settings):
    settings.PGJOBS = ["POLL_INTERVAL"]
    assert "must be a dict" in found()["pgjobs.E001"]


def test_durations_may_be_timedeltas(settings):
    settings.PGJOBS = {"POLL_INTERVAL": timedelta(minutes=1)}
    assert found() == {}


def test_a_lease_must_outlast_three_heartbeats(settings):
    settings.PGJOBS = {"LEASE_DURATION": 14, "HEARTBEAT_INTERVAL": 5}
    assert "three heartbeats" in found()["pgjobs.E002"]


def test_the_database_alias_must_exist(settings):
    settings.PGJOBS = {"DATABASE": "queue"}
    assert "'queue'" in found()["pgjobs.E003"]


def test_another_database_than_postgresql_is_refused(settings):
    connections.settings["lite"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "OPTIONS": {},
    }
    settings.PGJOBS = {"DATABASE": "lite"}
    try:
        assert "SQLite" in found()["pgjobs.E004"]
    finally:
        del connections.settings["lite"]
        del connections["lite"]


def test_psycopg_2_is_refused(monkeypatch):
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    assert "psycopg 3" in found()["pgjobs.E005"]


@pytest.mark.parametrize(("brings", "warns"), [("pgjobs", True), ("jobs", False)])
def test_module_that_two_distributions_bring_is_a_warning(
    brings, warns, tmp_path, monkeypatch
):
    for name, module in (("pgjobs", brings), ("django_pgjobs", "pgjobs")):
        folder = tmp_path / f"{name}-0.9.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 0.9.0\n")
        (folder / "top_level.txt").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    assert ("pgjobs.W084" in found()) == warns


def test_autocommit_off_is_refused(database):
    database(AUTOCOMMIT=False)
    assert "AUTOCOMMIT" in found()["pgjobs.E006"]


def test_another_isolation_level_is_refused(database):
    import psycopg

    database(OPTIONS={"isolation_level": psycopg.IsolationLevel.SERIALIZABLE})
    assert "READ COMMITTED" in found()["pgjobs.E007"]


@pytest.mark.parametrize(
    "pool, is_enough",
    [
        (True, True),
        ({"max_size": 3}, False),
        ({"min_size": 2}, False),
        ({"min_size": 2, "max_size": 4}, True),
        (False, True),
    ],
)
def test_a_pool_must_have_a_connection_for_each_slot(database, pool, is_enough):
    database(OPTIONS={"pool": pool})
    assert ("pgjobs.W008" not in found()) is is_enough


def test_admin_actions_must_be_installed(settings):
    settings.INSTALLED_APPS = [
        app for app in settings.INSTALLED_APPS if app != "admin_actions"
    ]
    assert "'admin_actions' is missing" in found()["pgjobs.E009"]


def test_admin_actions_must_stand_before_the_admin(settings):
    others = [app for app in settings.INSTALLED_APPS if app != "admin_actions"]
    settings.INSTALLED_APPS = [*others, "admin_actions"]
    assert "after 'django.contrib.admin'" in found()["pgjobs.E010"]


def test_without_the_admin_its_buttons_are_not_needed(settings):
    settings.INSTALLED_APPS = [
        app
        for app in settings.INSTALLED_APPS
        if app not in ("admin_actions", "django.contrib.admin")
    ]
    assert found() == {}


def test_two_tasks_of_one_name_are_refused():
    namespace = {"__name__": "tests.elsewhere", "task": task}
    exec("@task(name='tests.noop')\ndef another(): pass", namespace)
    assert "tests.tasks.noop" in found()["pgjobs.E011"]
    assert "tests.elsewhere.another" in found()["pgjobs.E011"]


def test_a_hint_that_cannot_be_resolved_is_refused():
    namespace = {"__name__": "tests.elsewhere", "task": task}
    exec("@task\ndef lost(x: 'Nowhere'): pass", namespace)
    assert "Nowhere" in found()["pgjobs.E012"]


@pytest.mark.parametrize("name", ["no.such.function", "tests.tasks", "json.dumps.x"])
def test_permission_for_a_job_s_status_must_be_a_function(settings, name):
    settings.PGJOBS = {"STATUS_PERMISSION": name}
    assert f"names {name!r}" in found()["pgjobs.E014"]
    assert "takes a request and a job" in found()["pgjobs.E014"]


@pytest.mark.django_db
def test_isolation_level_of_the_server_is_named():
    with connections["default"].cursor() as cursor:
        cursor.execute("SET LOCAL default_transaction_isolation = 'repeatable read'")
    assert "repeatable read" in found(databases=["default"])["pgjobs.E015"]


@pytest.mark.django_db
def test_an_old_server_is_named(monkeypatch):
    assert "pgjobs.W013" not in found(databases=["default"])
    connection = connections["default"]
    monkeypatch.setitem(connection.__dict__, "pg_version", 130011)
    assert "PostgreSQL 13" in found(databases=["default"])["pgjobs.W013"]


@pytest.mark.django_db
def test_roles_that_may_create_operators_are_named():
    assert "pgjobs.W023" not in found(databases=["default"])
    with harness.role("mallory") as role:
        harness.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        assert role in found(databases=["default"])["pgjobs.W023"]


def declare(options: str, name: str) -> None:
    namespace = {"__name__": "tests.elsewhere", "task": task}
    exec(f"@task({options})\ndef {name}(path: str): pass", namespace)


@pytest.mark.parametrize(
    ("options", "id", "text"),
    [
        ("lock_mode='mutex'", "pgjobs.W016", "says lock_mode='mutex', but no lock"),
        ("lock='a', max_running=5", "pgjobs.W017", "says max_running=5, but its jobs"),
    ],
)
def test_keys_that_say_nothing_are_named(options, id, text):
    declare(options, "idle")
    assert f"tests.idle {text}" in found()[id]


@pytest.mark.parametrize(
    "options",
    ["lock='{path}', max_running=5", "lock='a', lock_mode='mutex'", "max_running=5"],
)
def test_keys_that_say_something_are_no_matter(options):
    declare(options, "busy")
    assert found() == {}


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("limit_key='a', max_running=1", "limit_key='a', max_running=2", True),
        ("limit_key='a', max_running=2", "limit_key='a', max_running=2", False),
        ("limit_key='a{path}', max_running=1", "limit_key='a', max_running=2", False),
        ("rate_key='a', rate='1/hour'", "rate_key='a', rate='2/hour'", True),
        ("rate_key='a', rate='1/hour'", "limit_key='a', max_running=2", False),
    ],
)
def test_tasks_that_share_a_key_but_not_its_numbers_are_named(one, other, differ):
    declare(one, "one")
    declare(other, "other")
    assert ("pgjobs.W018" in found()) is differ
