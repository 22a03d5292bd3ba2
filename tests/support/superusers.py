"""Whose sessions are a superuser's while the tests run: the harness's, and no others.

One thread looks at the whole server, so that it sees each process that a test starts,
with whatever settings. A `migrate` and a worker take longer than the time between two
looks.
"""

import threading

import psycopg

from tests import harness
from tests.settings import TEST_DATABASE

INTERVAL = 0.1  # seconds
# Of the tests' databases, and of our product in any other one. A session that has not
# begun its first statement may not have its application's name yet.
STRANGERS = r"""
SELECT DISTINCT usename || ' as ' || coalesce(nullif(application_name, ''), 'nobody')
    || ' in ' || datname || ': ' || left(regexp_replace(query, '\s+', ' ', 'g'), 100)
FROM pg_stat_activity JOIN pg_roles ON pg_roles.oid = usesysid
WHERE rolsuper AND backend_type = 'client backend' AND query <> ''
    AND application_name <> %(known)s
    AND (
        starts_with(datname, %(databases)s) OR datname LIKE 'pgjobs\_benchmark\_%%'
        OR starts_with(application_name, 'pgjobs:')
    )
"""


class Watch:
    """Collects the sessions of superusers that are not the harness's."""

    def __init__(self, known: str = harness.APPLICATION) -> None:
        self.names = {"known": known, "databases": TEST_DATABASE}
        self.found: set[str] = set()
        self.looks = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.is_over.set()
        self.thread.join()

    def run(self) -> None:
        while not self.is_over.wait(INTERVAL):
            try:
                self.look()
            except psycopg.OperationalError:  # a crash of the server, made by a test
                continue

    def look(self) -> None:
        """Look until the connection breaks or all is over."""
        with harness.connect() as server:
            while not self.is_over.wait(INTERVAL):
                rows = server.execute(STRANGERS, self.names).fetchall()
                self.found.update(text for (text,) in rows)
                self.looks += 1
