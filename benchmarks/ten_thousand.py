"""Count what workers read: `python -m benchmarks.ten_thousand [crowd ...]`.

Each crowd is measured three times: with hardly anything, with a tenth, and with 10,000
things beside 300,000 jobs that wait. The table shows the blocks of 8 kB that each
statement of a worker touches. Starts a PostgreSQL of its own, or takes that of
DATABASE_URL. Exits with 1 if a statement reads more than its bound.
"""

import os
import sys
from collections.abc import Sequence

import psycopg

from benchmarks import crowds
from benchmarks.processes import ROOT
from benchmarks.server import privileged, running_server

SIZES = ((10, 10), (1_000, 30_000), (10_000, 300_000))  # things, and jobs that wait


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def measure(
    server: psycopg.Connection, connection: psycopg.Connection, crowd: str
) -> bool:
    """Print what grows beside a crowd; return whether all stays within its bounds."""
    columns = []
    for number, waiting in SIZES:
        crowds.fill(server, crowd, number, waiting)
        columns.append(dict(crowds.measured(connection)))
    few, some, many = columns
    grown = []
    for name in few:
        if many[name] > crowds.bound(crowd, name, few[name], SIZES[-1][0]):
            grown.append(name)
        verdict = "  GROWS" if name in grown else ""
        say(f"{crowd:34}{name:22}{few[name]:9,}{some[name]:9,}{many[name]:9,}{verdict}")
    return not grown


def main(names: Sequence[str]) -> int:
    unknown = set(names) - crowds.CROWDS.keys()
    if unknown:
        there_are = "; ".join(crowds.CROWDS)
        sys.exit(f"No crowd {', '.join(unknown)}; there are: {there_are}.")
    with running_server(os.environ.get("DATABASE_URL")) as server:
        os.environ["DATABASE_URL"] = server.create_database("crowds")
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
        os.environ["PYTHONPATH"] = str(ROOT)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        url = os.environ["DATABASE_URL"]
        with privileged() as own, psycopg.connect(url, autocommit=True) as connection:
            verdicts = [
                measure(own, connection, name) for name in names or crowds.CROWDS
            ]
        django.db.connections.close_all()
        server.drop_database("crowds")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
