"""One body three times: alone, in a transaction of its own, and as an atomic task."""

from django.db import connection, transaction

from pgjobs import task


def write_row() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO effect DEFAULT VALUES")


@task
def plain():
    write_row()


@task
def block():
    with transaction.atomic():
        write_row()


@task(atomic=True)
def atomic():
    write_row()
