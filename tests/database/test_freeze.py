"""Freezing: each release's changes stand in a migration, both ways."""

import shutil
from pathlib import Path

import pytest
from django.db import transaction

from pgjobs.database.__main__ import main
from pgjobs.database.freeze import check, freeze, operations
from pgjobs.database.install import HERE, InstallSQL, definitions, installing, replacing
from tests.database.catalogue import catalogue, run

pytestmark = pytest.mark.django_db

API = "../features/definitions/functions/api"
RETRY = f"{API}/retry.sql"
ADMIT = "functions/admission/admit.sql"
READING_THE_FILES = """
from django.db import migrations
from pgjobs.database.install import InstallSQL

class Migration(migrations.Migration):
    operations = [InstallSQL()]
"""

TABLES = """
from django.db import migrations

class Migration(migrations.Migration):
    operations = []
"""


class Package:
    """A copy of the package whose files a test may change."""

    def __init__(self, root: Path):
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(HERE.parent, root, ignore=ignored)

    def path(self, name: str) -> Path:
        return self.root / "database" / name

    def change(self, name: str, old: str, new: str) -> None:
        text = self.path(name).read_text()
        assert old in text
        self.path(name).write_text(text.replace(old, new))

    def freeze(self, name: str) -> InstallSQL:
        """Freeze a release; return the operation of its migration."""
        freeze(name, self.root)
        check(self.root)
        *_, operation = operations(self.root)
        return operation


@pytest.fixture
def package(tmp_path):
    """A package of which nothing is released, as long as that may be ago."""
    made = Package(tmp_path / "pgjobs")
    for path in made.root.glob("migrations/[0-9]*.py"):
        if path.stem > "0002":
            path.unlink()
    (made.root / "migrations/0002_functions.py").write_text(READING_THE_FILES)
    return made


@pytest.fixture
def released(package):
    package.freeze("0002_functions")
    return package


@pytest.fixture
def same_database_afterwards(db):
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_what_has_changed_since_the_last_release_is_in_a_migration():
    """If it is not, run: python -m pgjobs.database freeze 0009_what_has_changed."""
    check(HERE.parent)


def test_before_the_first_release_the_files_may_change(package):
    package.change(RETRY, "RETURN true", "RETURN NOT false")
    check(package.root)
    with pytest.raises(SystemExit, match="freeze 0002_functions first"):
        freeze("0003_retry", package.root)


def test_first_freeze_makes_what_the_files_made(package, same_database_afterwards):
    before = catalogue()
    operation = package.freeze("0002_functions")
    run(InstallSQL().backwards())
    bare = catalogue()
    package.change(RETRY, "RETURN true", "RETURN NOT false")
    run(operation.forwards())
    assert catalogue() == before
    run(operation.backwards())
    assert catalogue() == bare


def test_function_of_a_feature_is_frozen_as_one_of_the_core(released):
    made = released.root / "features/events/functions/unheard.sql"
    made.write_text(released.path(RETRY).read_text())
    with pytest.raises(SystemExit, match="in no migration yet: function pgjobs_unh"):
        check(released.root)
    operation = released.freeze("0003_unheard")
    assert set(operation.changes) == {"function pgjobs_unheard", "rights"}
    # No statement calls it, only this function.
    assert "pgjobs_audit_act" not in operation.calls


def test_first_freeze_leaves_migrations_of_tables_alone(package):
    (package.root / "migrations/0003_table.py").write_text(TABLES)
    with pytest.raises(SystemExit, match="freeze 0002_functions first"):
        freeze("0003_table", package.root)
    package.freeze("0002_functions")
    assert (package.root / "migrations/0003_table.py").read_text() == TABLES


def test_release_that_no_database_has_is_frozen_again(released):
    released.change(RETRY, "RETURN true", "RETURN NOT false")
    (released.root / "migrations/0003_table.py").write_text(TABLES)
    with pytest.raises(SystemExit, match="must follow 0003_table"):
        freeze("0002_functions", released.root)
    for name in ("0001_initial", "0003_table"):
        with pytest.raises(SystemExit, match="only the last one that freeze wrote"):
            freeze(name, released.root, again=True)
    freeze("0002_functions", released.root, again=True)
    check(released.root)
    *_, operation = operations(released.root)
    before, after = operation.changes["function pgjobs_retry"]
    assert before is None
    assert "NOT false" in after


def test_changes_are_frozen_both_ways(released, same_database_afterwards):
    before = catalogue()
    released.change(RETRY, "RETURN true", "RETURN NOT false")
    released.change(f"{API}/enqueue.sql", "    lock text", "    lok text")
    released.change("triggers.sql", "OR DELETE ON pgjobs_queue", "ON pgjobs_queue")
    released.change("rights.sql", "'pgjobs_leave_note'", "'pgjobs_heads'")
    released.path(f"{API}/job_status.sql").unlink()
    released.path(f"{API}/both.sql").write_text(
        "-- New.\nCREATE OR REPLACE FUNCTION pgjobs_both(a int) RETURNS int\n"
        "LANGUAGE sql SET search_path FROM CURRENT AS $$ SELECT \"a\" + '1' $$;\n"
    )
    with pytest.raises(SystemExit, match=r"pgjobs_both, .*pgjobs_job_status"):
        check(released.root)
    operation = released.freeze("0003_both")
    assert len(operation.changes) == 6
    run(operation.forwards())
    after = catalogue()
    assert {name.split("_", 1)[1] for name, _ in before.items() ^ after.items()} == {
        *("both", "enqueue", "heads", "job_status", "leave_note", "notify_queue"),
        "retry",
    }
    run(operation.backwards())
    assert catalogue() == before
    run(InstallSQL().backwards())
    run(installing(replacing({}, definitions(released.root))))
    assert catalogue() == after


def test_comment_above_a_definition_is_no_change(released):
    for name in (RETRY, "rights.sql", "triggers.sql"):
        text = released.path(name).read_text()
        released.path(name).write_text(f"-- Better said.\n{text}")
    check(released.root)
    with pytest.raises(SystemExit, match="Nothing has changed"):
        freeze("0003_nothing", released.root)


@pytest.mark.parametrize(
    "name", ["0001_again", "0002_functions", "retry", "0003-retry"]
)
def test_name_of_a_migration_follows_the_last_one(released, name):
    released.change(RETRY, "RETURN true", "RETURN NOT false")
    with pytest.raises(SystemExit, match="must follow 0002_functions"):
        freeze(name, released.root)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("most integer, seconds", "most bigint, seconds"),
        ("OUT has_more boolean", "OUT has_more integer"),
        ("pgjobs_admit", "pgjobs_no_more"),
    ],
)
def test_function_that_a_running_worker_calls_stays_as_it_is(released, old, new):
    released.change(ADMIT, old, new)
    if "pgjobs" in new:
        released.path(ADMIT).rename(released.path("functions/admission/no_more.sql"))
    for refusing in (check, lambda root: freeze("0003_admit", root)):
        with pytest.raises(SystemExit, match=r"^pgjobs_admit: workers of the last rel"):
            refusing(released.root)


def test_function_that_no_statement_calls_any_more_is_dropped_one_release_later(
    released,
):
    released.change(ADMIT, "RETURN;", "RETURN;  -- Changed.")
    released.change("../sql/upkeep/admit.sql", "pgjobs_admit", "pgjobs_admit_2")
    released.path("functions/admission/admit_2.sql").write_text(
        released.path(ADMIT).read_text().replace("pgjobs_admit", "pgjobs_admit_2")
    )
    released.freeze("0003_admit_2")
    released.path(ADMIT).unlink()
    operation = released.freeze("0004_no_admit")
    assert operation.changes.keys() == {"function pgjobs_admit", "rights"}


@pytest.mark.parametrize("name", ["constraints/is_job.sql", "tables/jobs.sql"])
def test_file_that_a_migration_runs_stays_as_it_was_released(released, name):
    released.path(name).write_text(released.path(name).read_text() + "-- Changed.\n")
    with pytest.raises(SystemExit, match=rf"^{name}: it must stay"):
        check(released.root)


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--check"], None), ([], 2), (["0003_a", "--check"], 2)]
)
def test_command_takes_a_name_or_checks(monkeypatch, arguments, code):
    monkeypatch.setattr("sys.argv", ["pgjobs.database", "freeze", *arguments])
    if code is None:
        main()
    else:
        with pytest.raises(SystemExit) as refused:
            main()
        assert refused.value.code == code
