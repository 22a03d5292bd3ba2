"""The pages of the reference on tables, SQL functions and what operators look up."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.apps import apps
from django.db import connection, models
from django.db.models.functions import Now

import pgjobs
from pgjobs import logging as pgjobs_logging
from pgjobs.database.install import functions
from pgjobs.worker import exit_code

FUNCTIONS = {path.stem: path for path in functions()}
FOR_PRODUCERS = ("enqueue", "insert_job", "publish", "cancel", "retry", "job_status",
                 "answer", "mark_step")  # fmt: skip
HEAD = re.compile(
    r"((?:--.*\n)+)CREATE OR REPLACE (\w+ (pgjobs_\w+)\(.*?)\s+LANGUAGE", re.S
)
EXIT_CODE = re.compile(r"= (\d)  # (.+)")
# No field of Django says so: see database/tables/jobs.sql.
DRAWN = ("turn",)
METRICS = Path(pgjobs.__file__).parent / "features/exporters/prometheus.py"

# Tables


def models_page() -> Iterator[str]:
    yield from (
        "# Tables, columns and permissions",
        "",
        "You may read all of them, by Django's ORM or by SQL. The database has these",
        "sentences, too: `\\d+ pgjobs_job` in psql shows them.",
        "[Upgrading](../guides/upgrading.md) says how long names stay. Change jobs by",
        "the verbs of [`Job`](api.md#models), by [functions](sql_functions.md), in",
        "the admin or by a command. A status that is written by hand leaves locks,",
        "batches and schedules behind.",
    )
    for model in apps.get_app_config("pgjobs").get_models():
        yield from table(model)
    yield from permissions()


def table(model: type[models.Model]) -> Iterator[str]:
    meta = model._meta
    yield from ("", f"## {model.__name__}", "")
    yield f"`{meta.db_table}`. {meta.db_table_comment}"
    yield from ("", "| column | type | default | |", "|---|---|---|---|")
    for field in meta.concrete_fields:
        kind = f"{field.db_type(connection)}{' or NULL' if field.null else ''}"
        cells = (f"`{field.column}`", kind, default_of(field), field.db_comment)
        yield f"| {' | '.join(cells)} |"


def default_of(field: models.Field) -> str:
    """Return what the database fills in if an INSERT leaves the column out."""
    if isinstance(field, models.AutoField) or field.column in DRAWN:
        return "the next number"
    if not field.has_db_default():
        return ""
    match field.db_default:
        case Now():
            return "`now()`"
        case models.Value(value=given):
            return f"`'{json.dumps(given)}'`"
        case str() | timedelta() as given:
            return f"`'{given}'`"
        case given:
            return f"`{json.dumps(given)}`"


def permissions() -> Iterator[str]:
    yield from (
        "",
        "## Permissions",
        "",
        "[The admin](../admin.md#permissions) says what each of them allows there.",
        "",
        "| permission | |",
        "|---|---|",
    )
    for model in apps.get_app_config("pgjobs").get_models():
        meta = model._meta
        for act in meta.default_permissions:
            yield f"| `pgjobs.{act}_{meta.model_name}` | {act} {meta.verbose_name} |"
        for name, words in meta.permissions:
            yield f"| `pgjobs.{name}` | {words} |"


# SQL functions


def sql_functions_page() -> Iterator[str]:
    yield from (
        "# SQL functions",
        "",
        "Functions of the database that your own SQL may call. [SQL](../sql.md) shows",
        "how, and says which rights they need. All others may change in any release.",
    )
    for name in FOR_PRODUCERS:
        yield from function(FUNCTIONS[name].read_text())


def function(text: str) -> Iterator[str]:
    found = HEAD.match(text)
    if found is None:
        raise ValueError(f"Neither comment nor head of a function: {text[:60]}")
    comment, signature, name = found.groups()
    words = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    yield from ("", f"## {name}", "", words, "", "```text", signature, "```")


# What operators look up


def operations_page() -> Iterator[str]:
    yield from (
        "# Exit codes, log fields and metrics",
        "",
        "What service managers, log collectors and Prometheus see of a worker.",
        "",
        "## Exit codes of runjobs",
        "",
        "| code | |",
        "|---|---|",
        *exit_codes(),
        "",
        "2 is Django's, for a wrong use of the command.",
        "[Commands](commands.md#exit-codes) has the exit codes of all others.",
        "",
        "## Log fields",
        "",
        "pgjobs' own records have `job_id`, `task` and `queue`. To every other record",
        "`pgjobs.logging.JobFilter`",
        "[adds these](../telemetry.md#which-job-a-record-belongs-to):",
        "",
        *(f"- `{name}`" for name in pgjobs_logging.NAMES),
        "",
        "## Metrics",
        "",
        "[Prometheus](../telemetry.md#prometheus) says how to fetch them.",
        "",
        "| metric | type | labels | |",
        "|---|---|---|---|",
        *metrics(),
    )


def exit_codes() -> Iterator[str]:
    for code, words in EXIT_CODE.findall(inspect.getsource(exit_code.ExitCode)):
        yield f"| {code} | {words[0].upper()}{words[1:]}. |"


def metrics() -> Iterator[str]:
    """Yield a line for each family that the module makes, without importing it."""
    for node in ast.walk(ast.parse(METRICS.read_text())):
        match node:
            case ast.Call(
                ast.Name(name), [ast.Constant(title), ast.Constant(words), *_]
            ):
                if name.endswith("MetricFamily"):
                    kind = name.removesuffix("MetricFamily").lower()
                    title += "_total" if kind == "counter" else ""
                    yield f"| `{title}` | {kind} | {labels_of(node)} | {words} |"
            case ast.Call(ast.Name("CounterMetricFamily"), [ast.JoinedStr(), *_]):
                for cause in ("notify", "poll"):
                    title = f"pgjobs_{cause}_wakeups_total"
                    words = f"Fetches of an idle worker, woken by a {cause}."
                    yield f"| `{title}` | counter | {labels_of(node)} | {words} |"


def labels_of(call: ast.Call) -> str:
    names = [each.value for each in call.keywords if each.arg == "labels"]
    return ", ".join(f"`{name}`" for each in names for name in ast.literal_eval(each))
