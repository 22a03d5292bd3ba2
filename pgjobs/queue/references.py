"""Rows of pgjobs to which tables of the project refer: they are not deleted.

Django carries out `on_delete` in Python. In the database a foreign key only refuses
that the row which it refers to goes, and the statement that deletes it fails.
"""

from typing import NamedTuple

from ..sql import statement
from .statements import Execute

NONE = "/*referred*/ false"  # what stands for the condition in the statements


class Reference(NamedTuple):
    """A column of another table; both names are quoted."""

    table: str
    column: str


def references_to(execute: Execute, table: str) -> list[Reference]:
    """Return what refers to a table and keeps its rows from being deleted."""
    rows = execute(statement("references"), {"table": table})
    return [Reference._make(row) for row in rows]


def sparing_referred(execute: Execute, name: str, table: str, alias: str) -> str:
    """Return a statement that deletes rows, so that it skips what is referred to.

    `alias`: what the statement calls the table.
    """
    text = statement(name)
    conditions = [
        f"EXISTS (SELECT FROM {each.table} AS referring "
        f"WHERE referring.{each.column} = {alias}.id OFFSET 0)"
        for each in references_to(execute, table)
    ]
    if not conditions:
        return text
    return text.replace(NONE, f"({' OR '.join(conditions)})".replace("%", "%%"))
