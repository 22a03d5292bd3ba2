"""What a standby tells: how things are, and how long ago they were so."""

import json
import os
import subprocess
import sys

import pytest

from tests.failover.test_failover import environment, running_pair
from tests.processes import ROOT


@pytest.fixture
def pair():
    with running_pair(is_synchronous=True) as pair:
        yield pair


def jobstatus(pair, port: int, *arguments: str) -> str:
    where = environment(pair)
    given = json.loads(where["PGJOBS_TEST_CONNECTING"])
    given |= {"HOST": "127.0.0.1", "PORT": str(port), "OPTIONS": {}}
    done = subprocess.run(
        [sys.executable, "-m", "django", "jobstatus", *arguments],
        env={
            **os.environ,
            **where,
            "PGJOBS_TEST_CONNECTING": json.dumps(given),
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
