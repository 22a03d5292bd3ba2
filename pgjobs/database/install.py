"""Migration operations that install the files of this package.

Migrations name this module and its operations, so these must never move.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from django.db import router
from django.db.migrations.operations import AddIndex
from django.db.migrations.operations.base import Operation

from ..sql.columns import filled

HERE = Path(__file__).parent
KINDS = ("function", "trigger", "rights")
CREATED = re.compile(r"^CREATE (SEQUENCE|TYPE|FUNCTION) (\w+)", re.MULTILINE)
TRIGGER = re.compile(r"CREATE OR REPLACE TRIGGER (\w+)")
# What CREATE OR REPLACE cannot change: signature and type, or the table.
HEAD = re.compile(
    r"CREATE OR REPLACE (?:(?:FUNCTION|PROCEDURE)(.*?)\bLANGUAGE|TRIGGER.*?\bON (\w+))",
    re.DOTALL,
)
Changes = dict[str, tuple[str | None, str | None]]


def functions(root: Path = HERE.parent) -> list[Path]:
    """Return the files of the functions, by area: a folder, or else the feature."""
    core = root.glob("database/functions/*/*.sql")
    of_features = root.glob("features/*/functions/**/*.sql")
    return sorted([*core, *of_features], key=lambda path: (area_of(path), path.name))


def area_of(path: Path) -> str:
    return next(part for part in reversed(path.parts[:-1]) if part != "functions")


def written(root: Path = HERE.parent) -> dict[str, str]:
    """Return {kind and name: text as it was written} of what a migration replaces."""
    found = {
        f"function pgjobs_{path.stem}": path.read_text() for path in functions(root)
    }
    for text in (root / "database/triggers.sql").read_text().split("\n\n"):
        if match := TRIGGER.search(text):
            found[f"trigger {match[1]}"] = f"{text.strip()}\n"
    found["rights"] = (root / "database/rights.sql").read_text()
    return found


def definitions(root: Path = HERE.parent) -> dict[str, str]:
    """Return the same texts as PostgreSQL gets them, without the comments above."""
    return {name: filled(parts(text)[1]) for name, text in written(root).items()}


def parts(text: str) -> tuple[str, str]:
    """Return the comment above a definition, and the definition."""
    definition = re.sub(r"\A(--.*\n)+", "", text)
    return text.removesuffix(definition), definition


def head(text: str) -> list[str]:
    match = HEAD.search(text)
    return (match[1] or match[2]).split() if match else []


def read(path: str) -> str:
    return (HERE / path).read_text()


def dropping(pattern: str) -> str:
    return read("installer/drop.sql").replace("<pattern>", pattern)


def replacing(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the statements that turn the old definitions into the new ones."""
    gone = [name for name in old if head(old[name]) != head(new.get(name, ""))]
    order = sorted(new, key=lambda name: KINDS.index(name.split()[0]))
    texts = [new[name] for name in order]
    return [dropping(f"^({'|'.join(gone)})$"), *texts] if gone else texts


class PostgreSQLOperation(Operation):
    """Statements for PostgreSQL. Databases of other vendors get only the tables."""

    reversible = True
    reduces_to_sql = True

    def state_forwards(self, app_label, state):
        """Change no model."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        self.run(app_label, schema_editor, self.forwards())

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        self.run(app_label, schema_editor, self.backwards())

    def run(self, app_label, schema_editor, statements: Iterable[str]) -> None:
        connection = schema_editor.connection
        if connection.vendor == "postgresql" and router.allow_migrate(
            connection.alias, app_label
        ):
            for statement in statements:
                schema_editor.execute(statement, params=None)

    def describe(self) -> str:
        return "Install what pgjobs/database/ has"


class RunFiles(PostgreSQLOperation):
    """Run files that never change, and drop what they created beside the tables.

    - `undone_by`: a file that undoes what they have changed.
    """

    def __init__(self, *paths: str, undone_by: str | None = None):
        self.paths = paths
        self.undone_by = undone_by

    def forwards(self) -> list[str]:
        return [read(path) for path in self.paths]

    def backwards(self) -> list[str]:
        created = CREATED.findall("".join(self.forwards()))
        names = (f"{kind.lower()} {name}" for kind, name in created)
        undoing = [read(self.undone_by)] if self.undone_by else []
        return [*undoing, dropping(f"^({'|'.join(names)})$")]


class AddMissingIndex(AddIndex):
    """Add an index, unless it is there: one can build it before, without a lock."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if not has_index(schema_editor.connection, self.index.name):
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def has_index(connection, name: str) -> bool:
    """Return whether the index is there and whole: a failed one stays invalid."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
        cursor.execute(query, [connection.ops.quote_name(name)])
        return cursor.fetchone() == (True,)


class InstallSQL(PostgreSQLOperation):
    """Install functions, triggers and rights: what a release has changed.

    - `changes`: {name: (text before, text after)}, with None where there is no text.
      Until the first release there are no `changes`, and the files are read.
    - `calls`: the functions that the statements of the release call, for freeze.py.
    - `files`: the digests of the files that its migrations run, for freeze.py.
    """

    def __init__(
        self,
        changes: Changes | None = None,
        calls: Iterable[str] = (),
        files: dict[str, str] | None = None,
    ):
        self.changes, self.calls, self.files = changes, calls, files or {}

    def forwards(self) -> list[str]:
        if self.changes is None:
            return installing(replacing({}, definitions()))
        return installing(replacing(side(self.changes, 0), side(self.changes, 1)))

    def backwards(self) -> list[str]:
        if self.changes is None:  # the files may have changed since
            return installing([dropping("^(function|trigger) pgjobs_")])
        return installing(replacing(side(self.changes, 1), side(self.changes, 0)))


def side(changes: Changes, number: int) -> dict[str, str]:
    """Return the texts before the changes (0), or after them (1)."""
    texts = {name: both[number] for name, both in changes.items()}
    return {name: text for name, text in texts.items() if text is not None}


def installing(statements: list[str]) -> list[str]:
    return [read("installer/prepare.sql"), *statements, read("installer/restore.sql")]
