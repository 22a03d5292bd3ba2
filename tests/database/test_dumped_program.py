"""`python -m pgjobs.database dump` prints what a migrated database has."""

import re

import pytest
from django.db import transaction

import pgjobs
from pgjobs.database.__main__ import main
from pgjobs.database.dump import dump, program
from pgjobs.database.freeze import present
from pgjobs.database.install import HERE, InstallSQL, definitions, read
from tests.database.catalogue import catalogue, run

CREATED = re.compile(r"^CREATE OR REPLACE \w+ (\w+)", re.MULTILINE)


@pytest.mark.django_db
def test_dumped_program_makes_what_migrate_makes():
    before = catalogue()
    with transaction.atomic():
        run(InstallSQL().backwards())
        assert catalogue() != before
        run(["\n".join(program())])
        assert catalogue() == before
        transaction.set_rollback(True)


def test_objects_of_the_dump_stand_in_the_order_of_their_installation():
    assert [*CREATED.findall(dump()), "rights"] == [
        name.split()[-1] for name in definitions()
    ]


def test_files_that_migrations_run_stand_before_the_functions():
    printed = re.findall("^-- ==== (.*) ====$", dump(), re.MULTILINE)
    assert printed == [*present(HERE.parent).files, "functions, triggers, rights"]
    for path in printed[:-1]:
        assert read(path).strip() in dump()


def test_dump_keeps_comments_and_has_no_marks():
    assert "-- One notification per queue and statement, however many" in dump()
    assert "$subscribed_columns" in read("../features/events/functions/deliver.sql")
    assert "$subscribed_columns" not in dump()


def test_dump_begins_with_what_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pgjobs.database", "dump"])
    main()
    printed = capsys.readouterr().out
    assert printed.startswith(f"-- What pgjobs {pgjobs.__version__} runs in PostgreSQL")
    assert printed == dump()
