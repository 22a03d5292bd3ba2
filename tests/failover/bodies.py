"""Tasks that leave a child behind, and then wait until the test lets them go."""

from django.db import connection

from pgjobs import task
from tests import tasks


def leave_child(path: str) -> None:
    tasks.write(path, "begun")
    tasks.wait_for_go(path + ".begin")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgjobs_job (task, kwargs, run_after)"
            " VALUES ('tests.echo', '{\"child_of\": 1}', now() + interval '1 hour')"
        )
    tasks.write(path, "left a child")
    tasks.wait_for_go(path)


@task(name="bodies.enqueue_and_hold")
def enqueue_and_hold(path: str):
    leave_child(path)


@task(name="bodies.enqueue_and_hold_atomic", atomic=True, backoff=lambda failures: 0)
def enqueue_and_hold_atomic(path: str):
    leave_child(path)
