"""Projects whose settings are not Django's own: each migrates, runs and is looked at.

Each case is a project in processes of its own, in a database of its own.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests import harness
from tests.processes import LONGEST_TEST, ROOT
from tests.settings import DATABASES, TEST_DATABASE

READ_COMMITTED = "-c default_transaction_isolation=read\\ committed"


@dataclass(frozen=True)
class Case:
    """One project: what its database and its role are like, and its settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    encoding: str = "UTF8"
    options: dict[str, Any] = field(default_factory=dict)  # of the connection
    of_role: tuple[str, ...] = ()  # SET for each session of the role
    before: tuple[str, ...] = ()  # statements in the new database
    replica: bool = False
    schema: str = "public"
    renamed: str = ""  # what the schema is called after the first migrate

    @property
    def database(self) -> str:
        return f"{TEST_DATABASE}_matrix_{self.name}"

    @property
    def role(self) -> str:
        return f"{self.database}_owner"

    @property
    def environment(self) -> dict[str, str]:
        own = {**DATABASES["default"], "NAME": self.database, "USER": self.role}
        connection = {
            name: own[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")
        }
        databases = {"default": {**connection, "OPTIONS": self.options}}
        if self.replica:
            read_only = {"options": "-c default_transaction_read_only=on"}
            databases["replica"] = {**connection, "OPTIONS": read_only}
        case = {**self.settings, "databases": databases}
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DJANGO_SETTINGS_MODULE": "tests.settings_matrix.settings",
            "PGJOBS_MATRIX": json.dumps(case),
        }


IN_APP = ("CREATE SCHEMA app AUTHORIZATION {role}",)
PATH_TO_APP = ("search_path = app",)

CASES = (
    Case("naive", {"use_tz": False, "time_zone": "America/New_York"}),
    Case(
        "replica",
        {
            "routers": ["tests.support.routers.ReplicaRouter"],
            "pgjobs": {"DATABASES": ["default"]},
        },
        replica=True,
    ),
    Case("ascii", encoding="SQL_ASCII"),
    Case(
        "role",
        of_role=(
            "IntervalStyle = iso_8601",
            "DateStyle = 'SQL, DMY'",
            "TimeZone = 'America/New_York'",
            "search_path = app, public",
            "default_transaction_isolation = 'repeatable read'",
        ),
        # As the check says that refuses such a role.
        options={"options": READ_COMMITTED},
        before=IN_APP,
        schema="app",
    ),
    Case("schema", of_role=PATH_TO_APP, before=IN_APP, schema="app"),
    Case("renamed", of_role=PATH_TO_APP, before=IN_APP, schema="app", renamed="stage"),
    Case(
        "assumed",
        options={"assume_role": f"{TEST_DATABASE}_matrix_assumed_group"},
        before=(
            "CREATE ROLE {group}",
            "GRANT {group} TO {role}",
            "GRANT CREATE ON SCHEMA public TO {group}",
        ),
    ),
    Case("unfold", {"theme": ["unfold"]}),
    Case("jazzmin", {"theme": ["jazzmin"]}),
    Case("site", {"admin": "tests.settings_matrix.site.OwnAdminConfig"}),
)


def on_server(case: Case, *statements: str, database: str = "") -> None:
    """Run statements as the server's superuser."""
    names = {
        "database": sql.Identifier(case.database),
        "role": sql.Identifier(case.role),
        "group": sql.Identifier(f"{case.database}_group"),
    }
    where = {"dbname": database} if database else {}
    with psycopg.connect(harness.server_url(), autocommit=True, **where) as server:
        for each in statements:
            server.execute(sql.SQL(each).format(**names))


@pytest.fixture
def case(request):
    case = request.param
    remove(case)
    locale = "LOCALE 'C'" if case.encoding == "SQL_ASCII" else ""
    on_server(
        case,
        "CREATE ROLE {role} LOGIN",
        *("ALTER ROLE {role} SET " + each for each in case.of_role),
        "CREATE DATABASE {database} OWNER {role} TEMPLATE template0 "
        f"ENCODING '{case.encoding}' {locale}",
    )
    on_server(case, *case.before, database=case.database)
    yield case
    remove(case)


def remove(case: Case) -> None:
    on_server(case, "DROP DATABASE IF EXISTS {database} WITH (FORCE)")
    with harness.connect() as server:
        for role in (case.role, f"{case.database}_group"):
            found = server.execute("SELECT FROM pg_roles WHERE rolname = %s", [role])
            if found.fetchone() is not None:
                drop = sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}")
                server.execute(drop.format(sql.Identifier(role)))


def run(case: Case, *words: str, code: int = 0) -> str:
    """Run Python in the case's project; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        env=case.environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_TEST,
    )
    assert ran.returncode == code, f"{words} ended with {ran.returncode}:\n{ran.stdout}"
    return ran.stdout


def manage(case: Case, *words: str, code: int = 0) -> str:
    return run(case, "-m", "django", *words, code=code)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name, indirect=True)
def test_project_with_these_settings_migrates_runs_and_is_looked_at(case):
    for theme in case.settings.get("theme", ()):
        pytest.importorskip(theme)
    manage(case, "migrate", "--verbosity", "0")
    if case.renamed:
        rename_schema(case)
    manage(case, "check", "--database", "default", "--fail-level", "ERROR")
    run(case, "-m", "tests.settings_matrix.visit", "prepare")
    # One of the schedules fires each second.
    manage(case, "runjobs", "--max-jobs", "8", "--max-time", "60")
    run(case, "-m", "tests.settings_matrix.visit", "look")


def rename_schema(case: Case) -> None:
    """Rename the schema, as for a copy, and follow what the checks then say."""
    on_server(
        case,
        f"ALTER SCHEMA {case.schema} RENAME TO {case.renamed}",
        "ALTER ROLE {role} SET search_path = " + case.renamed,
        database=case.database,
    )
    said = manage(case, "check", "--database", "default")
    assert "pgjobs.W025" in said, said
    assert "Run 'manage.py migrate" in manage(case, "runjobs", "--drain", code=1)
    manage(case, "migrate", "--verbosity", "0")
    assert "pgjobs.W025" not in manage(case, "check", "--database", "default")
