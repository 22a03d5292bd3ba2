"""Definitions: what the database knows of the tasks, and when it learns it."""

import dataclasses
import json
from datetime import date, timedelta
from io import StringIO
from typing import Annotated, Any

import pytest
from annotated_types import Interval, Len
from django.core.management import CommandError, call_command
from django.db import models
from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, Field

from pgjobs import exponential, task
from pgjobs.features.definitions.definitions import (
    declared,
    definition_of,
    differences,
    options_of,
    sync,
)
from pgjobs.features.definitions.schemas import parameters_of
from pgjobs.models import TaskDefinition
from pgjobs.tasks import registry
from tests.actors import in_thread, overlapping
from tests.processes import shared_queue
from tests.support.declared import store_definitions
from tests.tasks import generate_monthly

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def synced(db):
    store_definitions("default")


def definition(name: str) -> TaskDefinition:
    return TaskDefinition.objects.get(name=name)


def other(day: date): ...


# What a definition says


def test_definition_says_what_the_code_does():
    stored = definition(generate_monthly.name)
    assert stored.origin == "tests.tasks.generate_monthly"
    assert stored.description == "Generate a monthly report for a client."
    assert stored.parameters == {
        "type": "object",
        "properties": {
            "client_id": {"type": "integer", "description": "Whose report."},
            "month": {"type": "string"},
            "format": {"type": "string", "default": "pdf"},
        },
        "required": ["client_id", "month"],
        "additionalProperties": False,
        "x-order": ["client_id", "month", "format"],
    }
    assert stored.options["queue_name"] == "default"
    assert stored.is_active


class Format(models.TextChoices):
    CSV = "csv", "Comma-separated"
    JSON = "json", "JSON"


@dataclasses.dataclass
class Point:
    x: int


class Choosy(BaseModel, extra="ignore"):
    x: int


@dataclasses.dataclass
class Tree:
    branches: "list[Tree]"


class Lax(BaseModel, strict=False):
    x: int


class Renamed(BaseModel):
    x: int = Field(validation_alias=AliasChoices("x", "y"))


def of_hint(hint: Any) -> dict:
    def function(value): ...

    function.__annotations__ = {"value": hint}
    function.__qualname__ = function.__name__
    made = task(name="tests.hint")(function)
    return parameters_of(made.signature, None)["properties"]["value"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (["csv", 1], {"enum": ["csv", 1]}),
        (Format, {"enum": ["csv", "json"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (float | int, {"anyOf": [{"type": "integer"}, {"type": "number"}]}),
        (list[date], {"type": "array", "items": {"type": "string", "format": "date"}}),
        (
            dict[str, bool],
            {"type": "object", "additionalProperties": {"type": "boolean"}},
        ),
        (
            Annotated[int, Interval(ge=1, lt=5), "a note"],
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 5},
        ),
        (Annotated[int, AfterValidator(abs)], {"type": "integer"}),
        (
            set[int],
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        ),
        (
            Point,
            {
                "type": "object",
                "title": "Point",
                "properties": {"x": {"type": "integer"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            Choosy,
            {
                "type": "object",
                "title": "Choosy",
                "properties": {"x": {"type": "integer"}},
                "required": ["x"],
                "x-others": "dropped",
            },
        ),
    ],
)
def test_hint_becomes_a_schema(hint, schema):
    assert of_hint(hint) == schema


def test_class_within_itself_is_described_once():
    tree = of_hint(Tree)["properties"]["branches"]["items"]
    assert tree["x-checked-by"] == "worker"
    assert tree["x-types"] == ["object"]


@pytest.mark.parametrize(
    "hint",
    [
        date | str,
        timedelta,
        dict[int, str],
        Lax,
        Renamed,
        Annotated[set[int], Len(1, 2)],
        Annotated[int, BeforeValidator(int)],
    ],
)
def test_schema_says_where_sql_cannot_check(hint):
    assert of_hint(hint)["x-checked-by"] == "worker"


def documented(first: int, second: str = "", *, third: bool = False):
    """Do this.

    And that.

    :param first: Told in
        two lines.
    :param str second: With its type.

    :return: nothing
    """


def test_docstring_helps():
    made = task(name="tests.documented")(documented)
    told = definition_of(made)
    assert told["description"] == "Do this.\n\nAnd that."
    helps = {
        name: schema.get("description")
        for name, schema in told["parameters"]["properties"].items()
    }
    assert helps == {
        "first": "Told in two lines.",
        "second": "With its type.",
        "third": None,
    }


def test_options_are_json_that_does_not_change_with_the_process():
    made = task(
        name="tests.other",
        lock="day-{day}",
        rate="120/minute",
        backoff=exponential(base=3),
        retry_on=(OSError,),
        expires=timedelta(hours=1),
        unique_key=other,
        unique_for=timedelta(minutes=1),
        aliases=("tests.old",),
    )(other)
    options = json.loads(json.dumps(options_of(made)))
    assert options["keys"] == {
        "lock": {"parts": [["day-", "day"]]},
        "is_ordered": True,
        "rate_key": {"parts": [["tests.other", None]]},
        "rate_interval": 0.5,
        "rate_burst": 120,
    }
    assert options["backoff"] == "pgjobs.tasks.backoff.exponential"
    assert options["retry_on"] == ["builtins.OSError"]
    assert options["expires"] == 3600
    assert options["unique_key"] == {
        "function": "tests.features.definitions.test_definitions.other"
    }
    assert (options["unique_for"], options["unique_period"]) == ("period", 60)
    assert options["aliases"] == ["tests.old"]
    assert "0x" not in json.dumps(options)


# When the database learns it


def test_migrate_brings_the_rows_up_to_date():
    TaskDefinition.objects.all().delete()
    call_command("migrate", verbosity=0)
    assert TaskDefinition.objects.active().count() == len(declared())


@shared_queue
def test_worker_brings_the_rows_up_to_date(start_worker):
    TaskDefinition.objects.all().delete()
    start_worker()
    assert definition(generate_monthly.name).is_active


def test_task_that_no_code_declares_is_gone_and_may_come_back():
    made = task(name="tests.other")(other)
    store_definitions("default")
    id = definition("tests.other").pk
    del registry.tasks[made.origin]
    store_definitions("default")
    assert not definition("tests.other").is_active
    since = definition("tests.other").gone_at
    store_definitions("default")
    assert definition("tests.other").gone_at == since
    registry.add(made)
    store_definitions("default")
    assert definition("tests.other").is_active
    assert definition("tests.other").pk == id


def test_what_is_stored_already_is_not_written_again():
    before = dict(TaskDefinition.objects.values_list("name", "synced_at"))
    made = task(name="tests.other")(other)
    store_definitions("default")
    after = dict(TaskDefinition.objects.values_list("name", "synced_at"))
    assert after.pop(made.name)
    assert after == before


@pytest.mark.django_db(transaction=True)
def test_several_processes_may_sync_at_the_same_time():
    def synchronise():
        return sync("default", declared())

    TaskDefinition.objects.all().delete()
    first, second = overlapping(synchronise, synchronise)
    assert len(first.new) == len(declared())
    assert (second.changed, second.gone) == ([], [])
    assert TaskDefinition.objects.active().count() == len(declared())


def test_of_two_tasks_with_one_name_the_one_is_stored_that_a_worker_runs():
    task(name="tests.other")(other)
    last = task(name="tests.other")(documented)
    store_definitions("default")
    assert registry.get("tests.other") is last
    assert (
        definition("tests.other").origin
        == "tests.features.definitions.test_definitions.documented"
    )


# The command


@shared_queue
def test_releases_with_different_tasks_may_sync_at_the_same_time():
    def synchronise(release: int):
        for time in range(50):
            rows = [row(f"{number:03}", str(time)) for number in range(release, 200, 2)]
            sync("default", rows)

    def row(name: str, description: str) -> dict:
        given = {"name": name, "origin": "", "description": description}
        return given | {"parameters": {}, "options": {}}

    with in_thread(synchronise, 0) as first, in_thread(synchronise, 1) as second:
        first.result()
        second.result()


def synctasks(*arguments: str, **options) -> str:
    out = StringIO()
    call_command("synctasks", *arguments, stdout=out, **options)
    return out.getvalue()


def change_all() -> None:
    """Let a task be new, another changed, and one gone."""
    task(name="tests.other")(other)
    TaskDefinition.objects.filter(name="tests.add").update(description="Old.")
    TaskDefinition.objects.create(
        name="tests.older", parameters={}, options={}, synced_at="2026-01-01T00:00Z"
    )


def test_command_prints_what_it_changed():
    change_all()
    printed = synctasks().splitlines()
    assert printed[:3] == ["+ tests.other", "~ tests.add", "- tests.older"]
    assert printed[3].endswith(" tasks: 1 new, 1 changed, 1 gone.")
    assert synctasks(verbosity=0) == ""
    assert synctasks().endswith("0 new, 0 changed, 0 gone.\n")


def test_check_fails_where_the_database_knows_other_tasks():
    assert synctasks("--check") == "No differences.\n"
    change_all()
    out = StringIO()
    with pytest.raises(CommandError, match="run 'manage"):
        call_command("synctasks", "--check", stdout=out)
    assert out.getvalue().splitlines() == [
        "+ tests.other",
        "~ tests.add",
        "- tests.older",
    ]
    assert not TaskDefinition.objects.filter(name="tests.other").exists()


def test_check_agrees_with_the_sync():
    """JSON that comes back from PostgreSQL is what was declared."""
    found = differences("default", declared())
    assert not any(found)
