"""Each worker of a supervisor answers on a port of its own."""

from urllib.request import urlopen

import pytest

from benchmarks.ports import free_port
from pgjobs.worker import ExitCode
from tests.process.test_runjobs import check_that_they_are_refused
from tests.process.test_supervisor import STARTING_SECONDS, start_workers  # noqa: F401
from tests.processes import shared_queue, wait_for

pytestmark = shared_queue


def test_each_worker_answers_on_a_port_of_its_own(start_workers):  # noqa: F811
    port = free_port(2)
    worker = start_workers("--name", "mail", "--http", str(port))
    for number in (1, 2):
        address = f"http://127.0.0.1:{port + number - 1}"
        line = f"mail-{number} Health and nudges on {address}.\n"
        wait_for(lambda line=line: line in worker.printed, line, STARTING_SECONDS)
        with urlopen(f"{address}/healthz", timeout=60) as answer:
            assert answer.status == 200
    assert worker.stop() == ExitCode.STOPPED


def test_port_that_leaves_none_for_the_last_worker_is_a_usage_error(start_worker):
    arguments = ("--processes", "3", "--http", "65534")
    worker = start_worker(*arguments, registered=False)
    assert worker.wait() == 2
    assert "65534 leaves no port for each of 3 processes" in worker.printed


@pytest.mark.parametrize(
    "values",
    [
        ["", "host", "host:", "1:2:3", "::1:80", "a b:80", "65536", "٣"],
        ["http://localhost:80", "[::1]", "[x]:80", "-1", "user@host:80"],
    ],
)
def test_wrong_addresses_are_usage_errors_that_name_the_option(capsys, values):
    check_that_they_are_refused(capsys, "--http", values)
