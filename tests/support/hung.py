"""A test that hung: show what the server did meanwhile, and end it.

The test is over, but its statement is not. It would hold its locks, and each later test
of the process would fail or hang as well.
"""

from django.db import connections

from tests import harness
from tests.settings import TEST_DATABASE

SESSIONS = r"""
SELECT concat_ws(
    ' ', pid, application_name, state, wait_event_type, wait_event,
    'since', date_trunc('second', clock_timestamp() - state_change),
    'behind ' || nullif(array_to_string(pg_blocking_pids(pid), ', '), ''),
    E'\n   ', left(regexp_replace(query, '\s+', ' ', 'g'), 500)
)
FROM pg_stat_activity
WHERE datname = %(database)s AND pid <> pg_backend_pid()
ORDER BY state_change
"""
END = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = %(database)s AND pid <> pg_backend_pid()
"""


def is_hung(call) -> bool:
    """Return whether pytest-timeout has ended this part of a test."""
    return call.excinfo is not None and call.excinfo.exconly().startswith(
        "Failed: Timeout"
    )


def sessions() -> str:
    """Return a text with each session of the tests' database, and what it waits for."""
    with harness.connect() as server:
        rows = server.execute(SESSIONS, {"database": TEST_DATABASE}).fetchall()
    return "\n".join(text for (text,) in rows)


def end_sessions() -> None:
    """End all sessions of the tests' database, and forget our connections."""
    with harness.connect() as server:
        server.execute(END, {"database": TEST_DATABASE})
    harness.let_go()
    connections.close_all()
