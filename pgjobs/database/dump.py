"""`python -m pgjobs.database dump`: the current program of the database as one file."""

from collections.abc import Iterator
from importlib.metadata import version

from ..sql.columns import filled
from .freeze import operations
from .install import HERE, RunFiles, installing, parts, read, written

VERSION = version("django-pgjobs")
HEAD = f"""\
-- What pgjobs {VERSION} runs in PostgreSQL, in the order of installation:
--
-- 1. what Django's models cannot say of their tables: functions of constraints and
--    indexes, types, constraints, sequences, settings. A migration runs each file once,
--    so a later file may change what an earlier one has made.
-- 2. all functions, by their areas; triggers, in their firing order; rights.
--
-- It is for reading, and for a diff between two releases. `manage.py migrate` installs
-- it in the schema of the tables, the first one of the `search_path`. Columns and the
-- other indexes are those of the models: see `manage.py sqlmigrate pgjobs 0001_initial`
-- and so on. `manage.py pgjobsroles` prints the rights of roles that you make.
"""


def dump() -> str:
    """Return the text. It needs no database and no settings."""
    return "\n".join([HEAD, *once(), *program()])


def once() -> Iterator[str]:
    """Yield what a migration runs once, a file each."""
    for operation in operations(HERE.parent):
        if isinstance(operation, RunFiles):
            for path in operation.paths:
                yield f"-- ==== {path} ====\n\n{closed(read(path))}"


def program() -> Iterator[str]:
    """Yield what each release replaces, with the comments above it."""
    yield "-- ==== functions, triggers, rights ====\n"
    texts = (parts(text) for text in written().values())
    statements = installing([comment + filled(text) for comment, text in texts])
    yield from map(closed, statements)


def closed(statement: str) -> str:
    """Return a statement as psql wants it; Django's execute needs no semicolon."""
    return f"{statement.rstrip().removesuffix(';')};\n"
