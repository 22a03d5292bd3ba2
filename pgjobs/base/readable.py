"""Sessions whose moments and durations the driver can read.

A role, a database or a server may have IntervalStyle and DateStyle of its own. psycopg
reads intervals in PostgreSQL's own style only, and moments in ISO's.
"""

from typing import Any

import psycopg
from django.db.backends.signals import connection_created

from .database_choice import queue_databases, routed

# By the parameter: its readable values (a DateStyle also orders days and months), and
# what makes it readable. PostgreSQL reports both by itself: a look costs nothing.
READABLE = {
    "IntervalStyle": (("postgres",), "SET intervalstyle = postgres"),
    "DateStyle": (("ISO, DMY", "ISO, MDY", "ISO, YMD"), "SET datestyle = iso"),
}


def make_readable(connection: psycopg.Connection) -> None:
    """Change what this session prints, if the driver could not read it."""
    for name, (values, cure) in READABLE.items():
        if connection.info.parameter_status(name) not in (*values, None):
            connection.execute(cure)


def make_django_readable(connection: Any, **kwargs: Any) -> None:
    """Do so for a new connection of Django's to a database with a queue."""
    if connection.vendor != "postgresql":
        return
    if not isinstance(connection.connection, psycopg.Connection):
        return  # of psycopg2, about which a system check complains
    if connection.alias in (*queue_databases(), routed("db_for_read")):
        make_readable(connection.connection)


def watch_connections() -> None:
    """Look at each connection that Django opens from now on."""
    connection_created.connect(make_django_readable, dispatch_uid="pgjobs.readable")
