"""Migration operations that install the files of this package.

Migrations name this module and its operations: they never move.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.db import router
from django.db.migrations.operations.base import Operation

HERE = Path(__file__).parent
KINDS = ("function", "trigger", "rights")
OURS = "^(function|trigger) pgjobs_"
CREATED = re.compile(r"^CREATE (SEQUENCE|TYPE|FUNCTION) (\w+)", re.MULTILINE)
ROUTINE = re.compile(
    r"CREATE OR REPLACE (?:FUNCTION|PROCEDURE) (.*?)\bLANGUAGE\b", re.S
)
TRIGGER = re.compile(r"CREATE OR REPLACE TRIGGER (\w+)\b.*?\bON (\w+)", re.S)

# In the schema of our tables, and whatever order functions call one another in.
PREPARE = """
SELECT set_config('pgjobs.search_path', current_setting('search_path'), true);
SELECT set_config('search_path', relnamespace::regnamespace || ', pg_temp', true),
    set_config('check_function_bodies', 'off', true)
FROM pg_class WHERE oid = 'pgjobs_job'::regclass
"""
RESTORE = """
SELECT set_config('search_path', current_setting('pgjobs.search_path'), true),
    set_config('check_function_bodies', 'on', true)
"""
# What is found by its kind and name in the current schema. A function that a constraint
# or an index is made of goes when these are gone.
DROP = """
DO $drop$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY(
        SELECT drop_it
        FROM (
            SELECT 1, 'trigger ' || tgname, relnamespace,
                format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
            FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
            WHERE NOT tgisinternal
            UNION ALL
            SELECT 2, 'function ' || proname, pronamespace,
                format('DROP ROUTINE %s', oid::regprocedure)
            FROM pg_proc
            WHERE NOT EXISTS (
                SELECT FROM pg_depend
                WHERE refclassid = 'pg_proc'::regclass AND refobjid = pg_proc.oid
                    AND classid IN ('pg_class'::regclass, 'pg_constraint'::regclass)
            )
            UNION ALL
            SELECT 3, 'sequence ' || relname, relnamespace,
                format('DROP SEQUENCE %s', oid::regclass)
            FROM pg_class WHERE relkind = 'S'
            UNION ALL
            SELECT 4, 'type ' || typname, typnamespace,
                format('DROP TYPE %s', oid::regtype)
            FROM pg_type WHERE typtype = 'c'
        ) AS object (place, name, namespace, drop_it)
        WHERE namespace = current_schema()::regnamespace AND name ~ '<pattern>'
        ORDER BY place
    ) LOOP
        EXECUTE statement;
    END LOOP;
END
$drop$
"""


def definitions(root: Path = HERE) -> dict[str, str]:
    """Return {kind and name: text} of everything that is replaced when it changes."""
    found = {
        f"function pgjobs_{path.stem}": path.read_text()
        for path in sorted(root.glob("functions/*/*.sql"))
    }
    for text in (root / "triggers.sql").read_text().split("\n\n"):
        if match := TRIGGER.search(text):
            found[f"trigger {match[1]}"] = f"{text.strip()}\n"
    found["rights"] = (root / "rights.sql").read_text()
    return {name: without_comment(text) for name, text in found.items()}


def without_comment(text: str) -> str:
    """Return a definition without the lines above it, which PostgreSQL never sees."""
    return re.sub(r"\A(--.*\n)+", "", text)


def head(text: str) -> str:
    """Return what CREATE OR REPLACE does not replace: signature and type, or table."""
    match = ROUTINE.search(text) or TRIGGER.search(text)
    return " ".join(match[match.lastindex or 0].split()) if match else ""


def dropping(names: Iterable[str]) -> str:
    return DROP.replace("<pattern>", f"^({'|'.join(names)})$")


def replacing(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """Yield the statements that make new definitions of old ones."""
    gone = [name for name in old if head(old[name]) != head(new.get(name, ""))]
    if gone:
        yield dropping(gone)
    for name in sorted(new, key=lambda name: KINDS.index(name.split()[0])):
        yield new[name]


class PostgreSQLOperation(Operation):
    """Statements for PostgreSQL; another vendor's database has tables and no queue."""

    reversible = True
    reduces_to_sql = True

    def forwards(self) -> Iterable[str]:
        raise NotImplementedError

    def backwards(self) -> Iterable[str]:
        raise NotImplementedError

    def state_forwards(self, app_label, state):
        """Change no model."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        self.run(app_label, schema_editor, self.forwards)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        self.run(app_label, schema_editor, self.backwards)

    def run(self, app_label, schema_editor, statements) -> None:
        connection = schema_editor.connection
        if connection.vendor != "postgresql":
            return
        if router.allow_migrate(connection.alias, app_label):
            for statement in statements():
                schema_editor.execute(statement, params=None)

    def describe(self) -> str:
        return "Install what pgjobs/database/ has"


class RunFiles(PostgreSQLOperation):
    """Run files that never change, and drop what they created beside the tables."""

    def __init__(self, *paths: str):
        self.paths = paths

    def forwards(self) -> list[str]:
        return [(HERE / path).read_text() for path in self.paths]

    def backwards(self) -> list[str]:
        created = CREATED.findall("".join(self.forwards()))
        return [dropping(f"{kind.lower()} {name}" for kind, name in created)]


class InstallSQL(PostgreSQLOperation):
    """Install functions, triggers and rights: what changed since the last release.

    `changes` has {name: (text before, text after)}, with None for what is not there.
    What else a release had, for the freeze of the next one: the functions that its
    statements call, and the digests of the files that migrations run. Without changes,
    until the first release, the files are read.
    """

    def __init__(
        self,
        changes: dict[str, tuple[str | None, str | None]] | None = None,
        calls: list[str] | None = None,
        files: dict[str, str] | None = None,
    ):
        self.changes = changes
        self.calls = calls or []
        self.files = files or {}

    @property
    def before(self) -> dict[str, str]:
        return {name: old for name, (old, _) in (self.changes or {}).items() if old}

    @property
    def after(self) -> dict[str, str]:
        if self.changes is None:
            return definitions()
        return {name: new for name, (_, new) in self.changes.items() if new}

    def forwards(self) -> list[str]:
        return [PREPARE, *replacing(self.before, self.after), RESTORE]

    def backwards(self) -> list[str]:
        if self.changes is None:  # the files may have changed since
            return [PREPARE, DROP.replace("<pattern>", OURS), RESTORE]
        return [PREPARE, *replacing(self.after, self.before), RESTORE]
