import pytest

from pgjobs.models import Worker
from pgjobs.tasks import registry
from tests.processes import WorkerProcess, wait_for


@pytest.fixture(autouse=True)
def same_registry_afterwards():
    """Forget the tasks that a test declares."""
    before = dict(registry.tasks)
    yield
    registry.tasks = before
    registry.by_name = None


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
