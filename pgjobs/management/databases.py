"""Commands over several databases, one after the other: `--database all`."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import psycopg
from django.core.management.base import CommandError, OutputWrapper, no_translations
from django.db import connections
from django.db.utils import Error as DjangoDatabaseError

from ..base.database_choice import given_databases, queue_databases
from .parameters import known_database
from .speaking import Problems, QuietCommand

ALL = "all"
# Two aliases may lead to the same database, as around a pooler.
IDENTITY = """
SELECT to_regclass('pgjobs_job') IS NOT NULL AND NOT pg_is_in_recovery(),
    (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class QueueCommand(QuietCommand):
    """A command that `--database all` runs for each database with a queue.

    It speaks English: scripts read what it prints, and most of it has no translation.
    """

    is_one_of_all = False  # it runs for each database, one after the other

    @no_translations
    def execute(self, *args, **options):
        if options.get("database") != ALL:
            return super().execute(*args, **options)
        if options.get("watch"):
            raise CommandError("--watch shows one database: name it.", returncode=2)
        self.is_one_of_all = True
        out = wrapped(options.pop("stdout", None), self.stdout)
        err = wrapped(options.get("stderr"), self.stderr)
        printed: dict[str, object] = {}
        failed: list[tuple[str, CommandError]] = []
        for alias in chosen_databases(ALL, err):
            text = StringIO()
            try:
                super().execute(*args, **{**options, "database": alias, "stdout": text})
            except CommandError as error:
                failed.append((alias, error))
            if options.get("json"):
                printed[alias] = json.loads(text.getvalue() or "null")
            elif text.getvalue():
                out.write(f"{alias}:\n{text.getvalue()}", ending="")
            options["skip_checks"] = True  # the first has made them
        if options.get("json"):
            out.write(json.dumps(printed, indent=2))
        if failed:
            found = all(isinstance(error, Problems) for _, error in failed)
            raise (Problems if found else CommandError)(
                "\n".join(f"{alias}: {error}" for alias, error in failed),
                returncode=max(error.returncode for _, error in failed),
            )


def wrapped(given: Any, default: OutputWrapper) -> OutputWrapper:
    return OutputWrapper(given) if given else default


def chosen_databases(option: str | None, err: OutputWrapper) -> tuple[str, ...]:
    """Return the aliases that `--database` means; raise CommandError for a wrong one.

    If PGJOBS does not name its databases, `all` asks each whether it has the tables,
    and says which ones it skips. One that cannot be asked now is not skipped.
    """
    if option != ALL or ALL in connections:
        return (known_database(option),)
    aliases = tuple(known_database(alias) for alias in queue_databases())
    if given_databases() is not None or len(aliases) == 1:
        return aliases
    chosen: list[str] = []
    for alias, reason in judged(aliases):
        if reason:
            err.write(f"The database {alias!r} is skipped: {reason}.")
        else:
            chosen.append(alias)
    return tuple(chosen) or aliases[:1]


def judged(aliases: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each alias, and the reason to skip it or an empty text."""
    met: dict[tuple, str] = {}
    for alias in aliases:
        try:
            with connections[alias].cursor() as cursor:
                cursor.execute(IDENTITY)
                has_queue, *identity = cursor.fetchone()
        except (psycopg.Error, DjangoDatabaseError):
            yield alias, ""
            continue
        other = met.setdefault(tuple(identity), alias)
        if other != alias:
            yield alias, f"it is the same as {other!r}"
        else:
            yield alias, "" if has_queue else "it has no tables of pgjobs to write to"
