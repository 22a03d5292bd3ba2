"""Rows of pgjobs to which tables of the project refer. Pruning skips them.

Django carries out `on_delete` in Python. In the database such a foreign key makes the
statement fail that deletes the row.
"""

from typing import NamedTuple

from ..sql import statement
from .statements import Execute

NONE = "/*referred*/ false"  # stands for the condition in the statements


class Reference(NamedTuple):
    """A column of another table; both names are quoted."""

    table: str
    column: str


def references_to(execute: Execute, table: str) -> list[Reference]:
    """Return the columns that refer to a table and keep its rows from being deleted."""
    rows = execute(statement("references"), {"table": table})
    return [Reference._make(row) for row in rows]


def sparing_referred(execute: Execute, name: str, table: str, alias: str) -> str:
    """Return a statement that deletes rows and skips those to which others refer.

    `alias`: the name of the table in the statement.
    """
    text = statement(name)
    conditions = [
        f"EXISTS (SELECT FROM {reference.table} AS referring "
        f"WHERE referring.{reference.column} = {alias}.id OFFSET 0)"
        for reference in references_to(execute, table)
    ]
    if not conditions:
        return text
    return text.replace(NONE, f"({' OR '.join(conditions)})".replace("%", "%%"))
