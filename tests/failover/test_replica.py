"""What a standby tells: how things are, and how long ago they were so."""

import json
import os
import re
import subprocess
import sys

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connections
from django.urls import path

from pgjobs.admin import DatabaseSite
from pgjobs.features.desk.replica import replica_age
from pgjobs.models import Job
from tests.failover.test_failover import environment, job_on, running_pair
from tests.operators import text_of
from tests.processes import ROOT, wait_for
from tests.support.known_alias import known_alias

OVERVIEW = "pgjobs/job/overview/"
AGE = re.compile(r"Read from a replica, as it was (\d+) s ago\.")


@pytest.fixture(scope="module")
def pair():
    with running_pair(is_synchronous=True) as pair:
        yield pair


def connecting(pair, port: int) -> dict:
    """Return the settings of a connection to one of the two."""
    given = json.loads(environment(pair)["PGJOBS_TEST_CONNECTING"])
    return given | {"HOST": "127.0.0.1", "PORT": str(port), "OPTIONS": {}}


@pytest.fixture(scope="module")
def replica(pair, django_db_setup):
    """Let the project know the standby, under the alias "replica"."""
    own = connecting(pair, pair.standby.port)
    with known_alias("replica", {**connections["default"].settings_dict, **own}):
        yield


def jobstatus(pair, port: int, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "django", "jobstatus", *arguments],
        env={
            **os.environ,
            **environment(pair),
            "PGJOBS_TEST_CONNECTING": json.dumps(connecting(pair, port)),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'example_project'}",
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PGJOBS_IN_TEST_PROCESS": "1",
        },
        cwd=ROOT,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_jobstatus_of_a_replica_says_how_old_it_is(pair):
    printed = jobstatus(pair, pair.standby.port)
    assert printed.startswith("Read from a replica, as it was ")
    shown = json.loads(jobstatus(pair, pair.standby.port, "--json"))
    assert 0 <= shown["replica_seconds"] < 60
    assert "replica" not in jobstatus(pair, pair.primary.port)


@pytest.mark.django_db(databases=["default", "replica"])
def test_overview_of_a_replica_says_how_old_it_is(pair, replica, settings, client):
    site = DatabaseSite("replica")
    settings.ROOT_URLCONF = (path("admin/", admin.site.urls), path("it/", site.urls))
    client.force_login(User.objects.create_superuser("ada"))
    job_on(pair, "tests.elsewhere")
    wait_for(Job.objects.using("replica").exists, "the standby has the job")
    least = replica_age("replica")
    (shown,) = AGE.findall(text_of(client.get(f"/it/{OVERVIEW}")))
    assert round(least) <= int(shown) <= round(replica_age("replica"))
    assert "Read from a replica" not in text_of(client.get(f"/admin/{OVERVIEW}"))
