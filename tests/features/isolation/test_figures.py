"""What metrics say of the processes of isolated jobs."""

import pytest

from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.support import isolated_tasks as isolated

prometheus = pytest.importorskip("pgjobs.contrib.prometheus")
pytestmark = shared_queue


def shown(loop) -> str:
    from pgjobs.features.exporters.prometheus import of_worker, text_of

    return text_of(of_worker(loop, "1")).decode()


def test_metrics_show_processes_their_memory_and_why_they_died():
    with running_worker(slots=1) as loop:
        assert "pgjobs_isolated" not in shown(loop)
        wait_for_status(isolated.pids.enqueue(), "SUCCESSFUL")
        wait_for(
            lambda: 'isolated_processes{process="1",state="idle"} 1.0' in shown(loop)
        )
        (line,) = (
            each
            for each in shown(loop).splitlines()
            if each.startswith("pgjobs_isolated_memory_bytes{")
        )
        assert float(line.split()[-1]) > 10_000_000
        wait_for_status(isolated.leave.enqueue(3), "FAILED")
        wait_for_status(isolated.fill.enqueue(400), "FAILED")
        text = shown(loop)
        assert 'isolated_deaths_total{cause="crash",process="1"} 1.0' in text
        assert 'isolated_deaths_total{cause="memory",process="1"} 1.0' in text
