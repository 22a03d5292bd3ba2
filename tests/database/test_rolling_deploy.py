"""A deploy migrates first: old workers run on with the functions of the new release."""

import pytest

from pgjobs import chain, enqueue_many, publish
from pgjobs.database.install import InstallSQL, definitions, installing, replacing
from pgjobs.models import Attempt, Job
from tests.actors import session
from tests.database.catalogue import run
from tests.processes import LONGEST_TEST, shared_queue, wait_for, wait_for_all
from tests.support import dependent_tasks
from tests.tasks import echo, noop

pytestmark = shared_queue

INSTALLATIONS = 8
MODULES = {"TASK_MODULES": ["tests.support.dependent_tasks", "tests.support.handled"]}


@pytest.fixture
def same_functions_afterwards(transactional_db):
    yield
    run(InstallSQL().forwards())


def of_another_release(number: int) -> dict[str, str]:
    """Return all definitions with other texts, but the same heads."""
    return {
        name: text.replace("\n$$;", f"\n-- Release {number}\n$$;")
        for name, text in definitions().items()
    }


def enqueue_some(path: str, number: int) -> None:
    """Enqueue jobs with all that functions of the database decide about."""
    enqueue_many(
        [noop.using(lock=f"door {number % 3}").bind() for _ in range(10)]
        + [noop.using(lock="room", lock_mode="mutex").bind() for _ in range(5)]
        + [noop.using(limit_key="mail", max_running=2).bind() for _ in range(10)]
        + [noop.using(queue_name="narrow").bind() for _ in range(5)]
        + [noop.using(process_units=1).bind() for _ in range(5)]
    )
    echo.using(unique_key=f"key {number}").enqueue(number)
    chain(*(noop.bind() for _ in range(5))).enqueue()
    dependent_tasks.send_client.enqueue(path, number)
    publish("order.refunded", {"path": path})


def test_workers_go_on_while_all_functions_are_replaced(
    start_worker, same_functions_afterwards, tmp_path
):
    with session() as sql:
        sql.execute("INSERT INTO pgjobs_queue (name, max_running) VALUES ('narrow', 2)")
    workers = [start_worker("--units", "8", settings=MODULES) for _ in range(2)]
    path = str(tmp_path / "notes")
    for number in range(INSTALLATIONS):
        enqueue_some(path, number)
        wait_for(Job.objects.filter(status="SUCCESSFUL").exists, "they have begun")
        assert Job.objects.filter(finished_at=None).exists()
        run(installing(replacing({}, of_another_release(number))))
    wait_for_all("SUCCESSFUL", timeout=LONGEST_TEST)
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}
    assert not Attempt.objects.exists()
    for worker in workers:
        assert worker.is_alive
        assert "rror" not in worker.printed
        assert "ailed" not in worker.printed
