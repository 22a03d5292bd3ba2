"""Taking over from the real packages, in a process of their own settings."""

import os
import subprocess
import sys

import pytest

from tests.documents.examples import ROOT
from tests.features.importing.other_queues import NAMES
from tests.support.server import PrivateServer


@pytest.fixture
def server():
    server = PrivateServer()
    with server.connect() as superuser:
        superuser.execute("CREATE ROLE owner LOGIN CREATEDB")
        superuser.execute("ALTER DATABASE postgres OWNER TO owner")
    yield server
    server.remove()


@pytest.mark.direct
def test_jobs_and_schedules_of_other_queues_are_taken_once(server):
    for name in NAMES:
        pytest.importorskip(name)
    host = str(server.socket_directory)
    environment = {**os.environ, "PGUSER": "owner", "PGHOST": host}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.features.importing.other_queues"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
