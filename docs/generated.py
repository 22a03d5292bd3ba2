"""The pages of the reference that code tells."""

import argparse
import importlib
import inspect
import io
import pkgutil
import tokenize
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

from generated_exits import RULE, exit_codes
from generated_tables import models_page, operations_page, sql_functions_page

from pgjobs.conf import SETTINGS
from pgjobs.features.schedules.options import Recurrence
from pgjobs.management import commands
from pgjobs.tasks.options import JOB_OPTIONS, TASK_OPTIONS, Options

WITH_VERBS = argparse._SubParsersAction
# Options of every command of Django.
COMMON = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
    "force_color", "skip_checks",
}  # fmt: skip


def write_all(folder: Path) -> None:
    """Write each page into this folder, if its text has changed."""
    for name, lines in (
        ("settings", settings_page()),
        ("options", options_page()),
        ("commands", commands_page()),
        ("models", models_page()),
        ("sql_functions", sql_functions_page()),
        ("operations", operations_page()),
    ):
        write(folder / f"{name}.md", "\n".join(lines) + "\n")


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# Settings


def settings_page() -> Iterator[str]:
    yield from (
        "# Settings",
        "",
        "All settings stand in one dict, `PGJOBS`, in your project's settings. Each is",
        "optional. A duration is a number of seconds or a `timedelta`.",
        "`manage.py check` reports a name that pgjobs does not know, and a value that",
        "it cannot use.",
        "",
        "```python",
        "# settings.py",
        'PGJOBS = {"CONCURRENCY": 8, "POLL_INTERVAL": 2}',
        "```",
        "",
        "| setting | default | what it is |",
        "|---|---|---|",
    )
    for name, setting in SETTINGS.items():
        yield f"| `{name}` | `{shown(setting.default)}` | {setting.about} |"


def shown(value) -> str:
    """Return a default as a reader would write it."""
    if isinstance(value, float) and value.is_integer():
        return f"{int(value):_}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{key!r}: {shown(each)}" for key, each in value.items())
            + "}"
        )
    return repr(value)


# Options

# By use; what is in no group stands among the rare ones.
USES = (
    (
        "Every day",
        "[Tasks and jobs](../guides/tasks.md) explains them.",
        ("queue_name", "priority", "max_attempts", "timeout", "run_after"),
    ),
    (
        "Retries and time limits",
        "[Failures](../guides/failures.md) explains them.",
        ("backoff", "retry_on", "no_retry_on", "max_crashes", "expires", "deadline",
         "cancel"),
    ),
    (
        "Order, limits and rates",
        "[Locks, limits and rates](../guides/locks.md) explains them.",
        ("lock", "lock_mode", "max_running", "limit_key", "rate", "rate_key", "burst"),
    ),
    (
        "Only one job",
        "[Unique and debounced jobs](../guides/unique.md) explains them.",
        ("unique", "unique_key", "unique_for", "on_conflict"),
    ),
    (
        "What comes before and after",
        "[Chains](../guides/chains.md), [dependencies](../guides/dependencies.md),"
        " [events](../guides/events.md) and [tasks that wait](../guides/durable.md)"
        " explain them.",
        ("after", "after_failure", "batch", "on_success", "on_failure", "write_all",
         "dependencies", "waits_for"),
    ),
    (
        "Effects, secrets and logs",
        "[Effects that happen once](../guides/once.md), [what is"
        " masked](../admin.md#what-is-masked), [encryption](../guides/encryption.md),"
        " [logs](../telemetry.md) and [deleting successes at once](../guides/keep.md)"
        " explain them.",
        ("atomic", "sensitive", "encrypted", "keyed_hash", "keep_logs", "keep"),
    ),
    (
        "Processes, and many jobs at once",
        "[A process of its own](../guides/isolation.md), [process"
        " units](../guides/units.md) and [one call for many jobs](../guides/chunks.md)"
        " explain them.",
        ("isolated", "memory_limit", "process_units", "chunk", "chunk_wait",
         "chunk_by", "on_chunk_error"),
    ),
)  # fmt: skip
RARE = "What few tasks need"


def options_page() -> Iterator[str]:
    yield from (
        "# Options of tasks and jobs",
        "",
        "`@task(...)` sets an option for all jobs of a task, `task.using(...)` for one",
        "job. Some options make sense in one of the two only. `@task` also takes",
        "`name`, by which rows know the task (by default its app and function, such as",
        "`shop.send_receipt`), and `aliases`, [names that it had",
        "before](../guides/renaming.md).",
    )
    left = {each.name: each for each in fields(Options)}
    for title, explained, names in USES:
        found = [left.pop(name) for name in names]
        yield from ("", f"## {title}", "", explained, "")
        yield from table_of_options(found)
    yield from ("", f"## {RARE}", "")
    yield from table_of_options(left.values())
    yield from schedules_part()


def table_of_options(options) -> Iterator[str]:
    about = comments_of_fields(Options)
    yield "| option | default | `@task` | `.using` | what it does |"
    yield "|---|---|---|---|---|"
    for each in options:
        yield (
            f"| `{each.name}` | `{default_of(each)}` "
            f"| {'yes' if each.name in TASK_OPTIONS else ''} "
            f"| {'yes' if each.name in JOB_OPTIONS else ''} "
            f"| {about[each.name]} |"
        )


def schedules_part() -> Iterator[str]:
    yield from (
        "",
        "## Options of schedules",
        "",
        "They stand in `@task(...)`, or in one `@schedule(...)` for each schedule.",
        "",
        "| option | default | what it does |",
        "|---|---|---|",
    )
    about = comments_of_fields(Recurrence)
    for each in fields(Recurrence):
        yield f"| `{each.name}` | `{default_of(each)}` | {about[each.name]} |"


def default_of(field) -> str:
    if field.default is not MISSING:
        return shown(field.default).replace("<class 'BaseException'>", "BaseException")
    made = field.default_factory()
    return f"{field.default_factory.__name__}()" if callable(made) else shown(made)


def comments_of_fields(owner: type) -> dict[str, str]:
    """Return {field: the `#:` comment above it} of a dataclass and of its bases."""
    about: dict[str, str] = {}
    for each in reversed(owner.__mro__[:-1]):
        about |= comments_in(inspect.getsource(each))
    return about


def comments_in(source: str) -> dict[str, str]:
    about: dict[str, str] = {}
    comment: list[str] = []
    for line in tokenize.generate_tokens(io.StringIO(source).readline):
        if line.type == tokenize.COMMENT and line.string.startswith("#:"):
            comment.append(line.string[2:].strip())
        elif line.type == tokenize.NAME and comment:
            about[line.string] = " ".join(comment)
            comment = []
    return about


# Commands


def commands_page() -> Iterator[str]:
    yield from ("# Commands", "", "Each command of `manage.py`, with its options.")
    yield from RULE
    for module in pkgutil.iter_modules(commands.__path__):
        if not module.name.startswith("_"):
            yield from command(module.name)


def command(name: str) -> Iterator[str]:
    made = importlib.import_module(f"{commands.__name__}.{name}").Command()
    parser = made.create_parser("manage.py", name)
    yield from ("", f"## {name}", "", str(made.help), "")
    yield from exit_codes(name)
    options = own_options(parser)
    verbs = [each for each in options if isinstance(each, WITH_VERBS)]
    if len(options) > len(verbs):
        yield from ("| option | what it does |", "|---|---|")
    for each in options:
        if each not in verbs:
            yield f"| {usage(each)} | {help_of(parser, each)} |"
    for each in verbs:
        yield from verbs_page(name, each)


def verbs_page(name: str, verbs: argparse._SubParsersAction) -> Iterator[str]:
    """Yield the verbs of a command; then the options of them all, each once."""
    yield from ("| command | what it does |", "|---|---|")
    for each in verbs._choices_actions:
        yield f"| `{name} {each.dest}` | {each.help} |"
    takers: dict[tuple[str, str], list[str]] = {}
    for verb, parser in verbs.choices.items():
        for option in own_options(parser):
            row = usage(option), help_of(parser, option)
            takers.setdefault(row, []).append(verb)
    yield from ("", "| option | of | what it does |", "|---|---|---|")
    for (written, about), of in takers.items():
        which = "all" if len(of) == len(verbs.choices) else ", ".join(of)
        yield f"| {written} | {which} | {about} |"


def own_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        each
        for each in parser._actions
        if each.dest not in COMMON and each.help != argparse.SUPPRESS
    ]


def help_of(parser: argparse.ArgumentParser, option: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(option) if option.help else ""


def usage(option: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, option.choices or ())) + "}"
    value = option.metavar or (choices if option.choices else option.dest.upper())
    if isinstance(value, tuple):  # the first must be there
        value = f"{value[0]} [{' '.join(value[1:])}]"
    value = value.replace("|", "\\|")  # else it would end the cell
    if not option.option_strings:
        return f"`{value}`"
    if option.nargs == 0:
        value = ""
    return ", ".join(
        f"`{name} {value}`".replace(" `", "`") for name in option.option_strings
    )
