"""`jobstatus --check` where logical replication has brought rows but no sequence."""

import re

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.features.moving.id_blocks import SIZE
from pgjobs.features.moving.remarks import sequence_problems
from pgjobs.models import Job
from pgjobs.reports.remarks import Seen
from pgjobs.sql import statement
from tests.operators import make_worker
from tests.tasks import noop

pytestmark = pytest.mark.django_db

ID = "pgjobs_job_id_seq"
OF_TABLES = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name LIKE 'pgjobs\\_%'
    AND pg_get_serial_sequence(quote_ident(table_name), column_name) IS NOT NULL
"""
SERIAL = re.compile(r"pg_get_serial_sequence\('(\w+)', 'id'\)")


def set_back(sequence: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(%s, 1, false)", [sequence])


def texts() -> list[str]:
    seen = Seen("default", timezone.now(), [])
    return [remark.text for remark in sequence_problems(seen, None)]


@pytest.fixture(autouse=True)
def same_numbers_afterwards(db):
    """Let other tests draw the numbers that they would have drawn."""
    names = (ID, "pgjobs_lease_token", "pgjobs_turn")
    with connection.cursor() as cursor:
        last = []
        for name in names:
            cursor.execute("SELECT nextval(%s)", [name])
            last.append(cursor.fetchone()[0])
    yield
    with connection.cursor() as cursor:
        for name, number in zip(names, last, strict=True):
            cursor.execute("SELECT setval(%s, %s)", [name, number + 1_000])


def test_sequences_that_are_right_are_no_problem():
    enqueue(noop)
    assert texts() == []


def test_table_without_rows_is_no_problem():
    set_back(ID)
    assert texts() == []


@pytest.mark.parametrize("sequence", [ID, "pgjobs_turn"])
def test_sequence_behind_the_rows_is_named(sequence):
    enqueue(noop)
    set_back(sequence)
    (text,) = texts()
    assert sequence in text
    with pytest.raises(CommandError, match=sequence):
        call_command("jobstatus", "--check")


def test_sequence_of_each_table_is_looked_at():
    """A worker that got the id of a living one could not start, for one."""
    with connection.cursor() as cursor:
        cursor.execute(OF_TABLES)
        owned = {name for (name,) in cursor.fetchall()}
    # Rows of parcels are gone when their move is over.
    missing = owned - set(SERIAL.findall(statement("sequences_behind")))
    assert missing == {"pgjobs_parcel"}


def test_worker_whose_number_comes_again_is_named():
    worker = make_worker()
    set_back("pgjobs_worker_id_seq")
    (text,) = texts()
    assert "pgjobs_worker_id_seq" in text
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('pgjobs_worker_id_seq', %s)", [worker.pk])


def test_token_of_a_running_job_is_looked_at():
    enqueue(noop)
    assert Job.objects.claim(make_worker())
    set_back("pgjobs_lease_token")
    (text,) = texts()
    assert "pgjobs_lease_token" in text


def test_job_that_has_moved_here_from_another_block_is_no_problem():
    job = enqueue(noop)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgjobs_job SET id = %s WHERE id = %s", [7 * SIZE + 5, job.pk]
        )
    assert texts() == []
