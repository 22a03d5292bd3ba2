"""Types of command line parameters, with their error messages."""

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from ..base.connections import connect
from ..base.texts import storable
from ..conf import MOST_UNITS, settings
from ..exceptions import InvalidTask, non_negative_seconds
from ..tasks.options import check_queue_name
from ..worker.modes import refuse_mode
from .refusals import explained

# Where the tables are, by the search path of a session.
SCHEMA = """
SELECT (
    SELECT relnamespace::regnamespace::text FROM pg_class
    WHERE oid = to_regclass('pgjobs_job')
)
"""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SIZES = {
    prefix: base**power
    for power, letter in enumerate("KMGT", 1)
    for prefix, base in ((letter, 1000), (f"{letter}i", 1024))
}


def whole_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000_000:
        raise ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}.")
    return int(text)


def units(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_UNITS:
        raise ArgumentTypeError(
            f"must be a whole number between 1 and {MOST_UNITS}, got {text!r}."
        )
    return int(text)


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1_000_000:
        raise ArgumentTypeError(f"must be a whole number of at least 0, got {text!r}.")
    return int(text)


def count_or_auto(text: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else count(text)


def seconds(text: str) -> float:
    """Take seconds, or a number with a unit: 90s, 15m, 72h, 7d."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        return non_negative_seconds("it", float(number) * UNITS[unit])
    except ValueError:
        raise ArgumentTypeError(
            "must be seconds, at least 0, or a duration such as 90s, 15m, 72h or 7d, "
            f"got {text!r}."
        ) from None


def positive_seconds(text: str) -> float:
    value = seconds(text)
    if value == 0:
        raise ArgumentTypeError(f"must be more than 0 s, got {text!r}.")
    return value


def memory(text: str) -> int:
    """Take a number of bytes with its unit: 300MB, 1.5GB, 512MiB."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([KMGT]i?)B", text, re.ASCII)
    size = float(match[1]) * SIZES[match[2]] if match else 0
    if not 1 <= size < 2**63:
        raise ArgumentTypeError(
            f"must be a size such as 300MB, 1.5GB or 512MiB, got {text!r}."
        )
    return int(size)


def queue_name(text: str) -> str:
    try:
        check_queue_name(text)
    except InvalidTask as error:
        raise ArgumentTypeError(str(error).removeprefix("queue_name ")) from None
    return text


def queue_names(text: str) -> tuple[str, ...]:
    names = [name.strip(" ") for name in text.split(",")]
    try:
        for name in names:
            check_queue_name(name)
    except InvalidTask:
        raise ArgumentTypeError(
            f"must be queue names separated by commas, got {text!r}."
        ) from None
    return tuple(dict.fromkeys(names))


def worker_name(text: str) -> str:
    if text != storable(text, limit=len(text)):
        raise ArgumentTypeError(
            "must be text that PostgreSQL can store, without NUL characters and in "
            f"the encoding of the locale, got {text!r}."
        )
    return text


def add_database(parser, all_means: str = "") -> None:
    parser.add_argument(
        "--database",
        metavar="ALIAS",
        help="alias of the database with the queue (default: PGJOBS['DATABASE'])"
        + (f"; {all_means}" if all_means else ""),
    )


def add_verbs(parser, listed: str, **how) -> tuple[Any, Any]:
    """Add the verbs of a command, and the first of them, `list`; return both.

    The command itself has no options: the defaults of a verb would replace what is
    given. `listed`: what the list has. `how`: as for a parser.
    """
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND")
    listing = verbs.add_parser("list", help=f"list the {listed} (the default)", **how)
    listing.add_argument("--json", action="store_true", help="print JSON, for programs")
    add_database(listing, "all means each")
    return verbs, listing


@contextmanager
def ready_database(alias: str | None) -> Iterator[str]:
    """Use the queue of a database; raise CommandError for what it refuses."""
    alias = known_database(alias)
    with explained(alias), settings.using_database(alias):
        check_migrations(alias)
        yield alias


def known_database(alias: str | None) -> str:
    """Return the alias if it names a PostgreSQL database; raise CommandError.

    This opens no connection.
    """
    alias = alias or settings.DATABASE or DEFAULT_DB_ALIAS
    if alias not in connections:
        known = ", ".join(sorted(connections))
        raise CommandError(
            f"There is no database {alias!r}; DATABASES has {known}.", returncode=1
        )
    if connections[alias].vendor != "postgresql":
        raise CommandError(
            f"pgjobs needs PostgreSQL, but the database {alias!r} is "
            f"{connections[alias].display_name}.",
            returncode=1,
        )
    return alias


def check_mode() -> None:
    try:
        refuse_mode()
    except ImproperlyConfigured as error:
        raise CommandError(str(error), returncode=1) from None


def check_schema(alias: str) -> None:
    """Refuse a schema that a backend has chosen for Django's connections alone."""
    with connections[alias].cursor() as cursor:
        cursor.execute(SCHEMA)
        (of_django,) = cursor.fetchone()
    with connect(alias, "look", "schema") as own:
        ((of_worker,),) = own.execute(SCHEMA).fetchall()
    if of_worker != of_django:
        raise CommandError(
            f"Code would enqueue into the schema {of_django}, but workers look into "
            f"{of_worker or 'one without tables of pgjobs'}: something changes the "
            "search_path of Django's connections, as backends for tenants do. Tenants "
            "share one queue: put 'pgjobs' into SHARED_APPS only, and start the worker "
            "outside of a tenant.",
            returncode=1,
        )


def check_migrations(alias: str) -> None:
    executor = MigrationExecutor(connections[alias])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "pgjobs"]
    if executor.migration_plan(targets):
        raise CommandError(
            f"The tables of pgjobs are not up to date in the database {alias!r}: run "
            f"'manage.py migrate pgjobs --database {alias}' first.",
            returncode=1,
        )
