"""A migrated database has what the files say, in whatever schema."""

import re

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from pgjobs.database.install import HERE, InstallSQL, definitions, functions
from pgjobs.sql.columns import filled
from tests.actors import execute
from tests.database.catalogue import catalogue, run
from tests.settings import SCHEMA

pytestmark = pytest.mark.django_db

ROUTINE = re.compile(r"^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (\w+)", re.M)
FILES = {
    path.relative_to(HERE.parent): filled(path.read_text())
    for path in [*sorted(HERE.glob("constraints/*.sql")), *functions()]
}


def test_migrated_database_has_what_the_files_say():
    before = catalogue()
    with transaction.atomic():
        run(InstallSQL().backwards())
        assert sorted(catalogue()) == [
            "function pgjobs_chunk_key",
            "function pgjobs_holds_key",
            "function pgjobs_is_job",
        ]
        run(InstallSQL().forwards())
        assert catalogue() == before
        transaction.set_rollback(True)


def test_bodies_in_the_database_are_those_of_the_files():
    bodies = dict(
        execute("SELECT proname, prosrc FROM pg_proc WHERE proname ~ '^pgjobs'")
    )
    assert bodies == {
        ROUTINE.findall(text)[0]: text.split("$$")[1] for text in FILES.values()
    }


@pytest.mark.parametrize("path", FILES, ids=str)
def test_file_has_one_function_and_its_name_and_says_what_it_is_for(path):
    assert ROUTINE.findall(FILES[path]) == [f"pgjobs_{path.stem}"]
    assert FILES[path].startswith("-- ")


def test_function_of_a_constraint_cannot_be_replaced():
    """An index that calls the function would not notice."""
    for path, text in FILES.items():
        assert ("CREATE OR REPLACE" in text) == (path.parent.name != "constraints")


def test_triggers_stand_in_their_firing_order():
    fired = execute(
        """
        SELECT 'trigger ' || tgname FROM pg_trigger
        WHERE tgname LIKE 'pgjobs%' AND NOT tgisinternal
        -- BEFORE, for each statement and row, and AFTER, for each row and statement
        ORDER BY tgtype & 2 DESC, (tgtype & 1 = 1) = (tgtype & 2 = 0) DESC, tgname
        """
    )
    written = [name for name in definitions() if name.startswith("trigger ")]
    assert written == [name for (name,) in fired]


def test_installation_leaves_the_settings_of_the_session():
    names = ("search_path", "check_function_bodies")
    before = [execute(f"SHOW {name}") for name in names]
    run(InstallSQL().forwards())
    assert [execute(f"SHOW {name}") for name in names] == before


def test_installation_drops_no_function_of_the_project():
    execute("CREATE FUNCTION pgjobsish() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    run(InstallSQL().backwards())
    assert execute("SELECT pgjobsish()") == [(1,)]


def test_two_schemas_of_a_database_have_functions_of_their_own():
    public = catalogue()
    with transaction.atomic():
        execute('CREATE SCHEMA "Other one"')
        execute('SET LOCAL search_path = "Other one"')
        migrate(MigrationExecutor(connection).loader.graph.leaf_nodes("pgjobs"))
        other = catalogue()
        assert other.keys() == public.keys()
        path = f"""SET search_path TO '{SCHEMA}', 'pg_temp'"""
        changed = path.replace(SCHEMA, "Other one")
        with_path = {name for name in public if path in public[name]}
        assert with_path and with_path == {
            name for name in other if changed in other[name]
        }
        assert f"{SCHEMA}.pgjobs" not in "".join(other.values())
        execute("INSERT INTO pgjobs_job (task, keys) VALUES ('a', '{\"lock\": \"b\"}')")
        assert execute("SELECT status FROM pgjobs_job") == [("WAITING",)]
        migrate([("pgjobs", None)])
        assert catalogue() == {}
        execute(f"SET LOCAL search_path = {SCHEMA}")
        assert catalogue() == public
        transaction.set_rollback(True)


def migrate(targets: list) -> None:
    MigrationExecutor(connection).migrate(targets)
