"""`manage.py tasks`: the tasks, and what operators change of them at run time."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from ...base.moments import instant, local
from ...exceptions import InvalidTask
from ...management.databases import QueueCommand
from ...management.parameters import (
    add_database,
    add_verbs,
    positive_seconds,
    ready_database,
    whole_number,
)
from ...management.running import number_of
from ...management.speaking import examples_of
from ...management.tables import print_table
from ...models.audit_entry import Via, person_at_terminal
from ...models.definition import TaskDefinition
from ...reports.texts import one_line
from ..operating.choosing import near
from .queue import (
    Declared,
    Wish,
    current,
    ends_in,
    keys_in_force,
    of_tasks,
    set_override,
    wish_of,
)
from .tables import Kind, Override

MOST_LISTED = 1_000  # tasks, and keys
ALL = "--limit shows more."
KEYED = ("lock", "limit", "rate")
TITLES = ("task", "queue", "max_running", "rate", "state")
VERBS = {
    "pause": "start none of its jobs until it is resumed",
    "resume": "start its jobs again",
    "set": "change max_running or rate, stronger than the code",
    "lift": "let the code decide again, and resume it",
}


class Command(QueueCommand):
    help = (
        "List the tasks, and what differs from their code. Or pause a task or a key, "
        "and change its max_running or rate, at once and without a deploy."
    )

    def add_arguments(self, parser):
        verbs, listing = add_verbs(parser, "tasks", **examples_of("tasks list"))
        listing.add_argument("names", nargs="*", metavar="TASK", help="only these")
        listing.add_argument(
            "--limit",
            type=whole_number,
            default=MOST_LISTED,
            metavar="N",
            help="the most tasks, and the most keys (default: %(default)s)",
        )
        for verb, text in VERBS.items():
            each = verbs.add_parser(verb, help=text, **examples_of(f"tasks {verb}"))
            add_subject(each)
            if verb == "set":
                each.add_argument(
                    "--max-running",
                    type=whole_number,
                    metavar="N",
                    help="the most jobs of each limit key that run at a time",
                )
                each.add_argument("--rate", metavar="RATE", help="such as 100/minute")
            if verb in ("pause", "set"):
                each.add_argument(
                    "--for",
                    dest="seconds",
                    type=positive_seconds,
                    metavar="4h",
                    help="only so long (default: until it is lifted)",
                )
                each.add_argument("--note", help="why; shown with it")
            add_database(each, "all means each")

    def handle(self, **options):
        with ready_database(options.get("database")) as alias:
            if options["verb"] in VERBS:
                self.act(alias, options["verb"], options)
            else:
                self.list_tasks(alias, options)

    # List

    def list_tasks(self, alias: str, options: dict[str, Any]) -> None:
        names = options.get("names") or []
        for name in names:
            self.check_known(alias, name)
        definitions = TaskDefinition.objects.using(alias).order_by("name")
        if names:
            definitions = definitions.filter(name__in=names)
        limit = options.get("limit") or MOST_LISTED
        tasks = list(definitions[:limit])
        overrides = of_tasks(alias, [task.name for task in tasks])
        changed = keys_in_force(alias)
        keys = [] if names else list(changed[:limit])
        if (more := definitions.count() - len(tasks)) > 0:
            self.stderr.write(f"And {number_of('more task', more)}: {ALL}")
        if keys and (more := changed.count() - len(keys)) > 0:
            self.stderr.write(f"And {number_of('more key', more)}: {ALL}")
        if options.get("json"):
            rows = [as_json(task, overrides.get(task.name)) for task in tasks]
            rows += [as_json(None, each) for each in keys]
            self.stdout.write(json.dumps(rows, indent=2))
            return
        shown = [(task, overrides.get(task.name)) for task in tasks]
        notes = [note_of(override) for _, override in shown]
        cells = [row(task, override) for task, override in shown]
        otherwise = "No tasks: run 'manage.py synctasks', or start a worker."
        print_table(self.stdout, TITLES, cells, otherwise, TITLES[:2], notes)
        for each in keys:
            said = wish_of(each).in_words
            self.stdout.write(f"{each.kind} {one_line(each.key)}: {said}")
            if note := note_of(each):
                self.stdout.write(f"  {note}")

    # Acts

    def act(self, alias: str, verb: str, options: dict[str, Any]) -> None:
        kind, key = subject_of(options)
        definition = None
        if kind == Kind.TASK:
            definition = self.check_known(alias, key)
        before = wish_of(current(alias, kind, key))
        wish = wished(verb, before, options)
        if definition is not None and (why := Declared.of(definition).why_not(wish)):
            raise CommandError(f"{one_line(key)}: {why}", returncode=1)
        try:
            changed = set_override(
                alias, kind, key, wish, person_at_terminal(), Via.COMMAND
            )
        except InvalidTask as error:
            raise CommandError(str(error), returncode=1) from None
        name = one_line(key) if kind == Kind.TASK else f"{kind} {one_line(key)}"
        said = "as the code says" if wish == Wish() else wish.in_words
        was = "is now" if changed else "was already"
        self.stdout.write(f"{name} {was} {said}.")

    def check_known(self, alias: str, name: str) -> TaskDefinition | None:
        """Return the definition of a task; raise CommandError if there is none."""
        definitions = TaskDefinition.objects.using(alias)
        found = definitions.filter(name=name).first()
        if found is None and not self.is_one_of_all:
            known = {*definitions.values_list("name", flat=True)[:1_000]}
            raise CommandError(
                f"There is no task {one_line(name)!r}. {near(name, known)}",
                returncode=1,
            )
        return found


def add_subject(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="TASK", help="name of the task")
    for kind in KEYED:
        # --rate of `set` is the rate itself.
        parser.add_argument(
            f"--{kind}-key",
            metavar="KEY",
            help=f"all jobs with this key of a {kind}, instead of those of a task",
        )


def subject_of(options: dict[str, Any]) -> tuple[str, str]:
    """Return what an act is about: a kind and a key. Raises CommandError."""
    given = [("task", options["name"])]
    given += [(kind, options[f"{kind}_key"]) for kind in KEYED]
    named = [(kind, key) for kind, key in given if key is not None]
    if len(named) != 1:
        raise CommandError(
            "Name one task, or one key with --lock-key, --limit-key or --rate-key.",
            returncode=2,
        )
    return named[0]


def wished(verb: str, before: Wish, options: dict[str, Any]) -> Wish:
    """Return what an act wants, beside what was said before. Raises CommandError."""
    if verb == "lift":
        return Wish()
    if verb == "resume":
        wish = before._replace(paused=False)
        return Wish() if wish.in_words == "lifted" else wish
    changes: dict[str, Any] = {"paused": True} if verb == "pause" else {}
    if verb == "set":
        given = {"max_running": options["max_running"], "rate": options["rate"]}
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise CommandError(
                "Say what to set: --max-running or --rate.", returncode=2
            )
    if options["seconds"] is not None:
        changes["until"] = ends_in(timedelta(seconds=options["seconds"]))
    if options["note"] is not None:
        changes["note"] = options["note"]
    return before._replace(**changes)


# What is shown


def row(task: TaskDefinition, override: Override | None) -> tuple[Any, ...]:
    declared, wish = Declared.of(task), wish_of(override)
    options = task.options if isinstance(task.options, dict) else {}
    state = "active" if task.gone_at is None else "gone"
    return (
        one_line(task.name),
        one_line(str(options.get("queue_name"))),
        differing(declared.max_running, wish.max_running),
        differing(declared.rate, wish.rate),
        "paused" if wish.paused else state,
    )


def differing(declared: Any, said: Any) -> str:
    """Return what is in force, with what the code says if that differs."""
    if said is None or said == declared:
        return "-" if declared is None else str(declared)
    return f"{said} (code: {declared})"


def note_of(override: Override | None) -> str:
    """Return since when, until when and why an override is there."""
    if override is None:
        return ""
    parts = [f"changed {moment(override.changed_at)}"]
    if override.until is not None:
        parts.append(f"until {moment(override.until)}")
    if override.note:
        parts.append(one_line(override.note))
    return ", ".join(parts)


def moment(time) -> str:
    return f"{local(time):%Y-%m-%d %H:%M:%S %Z}"


def as_json(task: TaskDefinition | None, override: Override | None) -> dict[str, Any]:
    wish = wish_of(override)
    said = {
        "paused": wish.paused,
        "max_running": wish.max_running,
        "rate": wish.rate,
        "until": wish.until and instant(wish.until).isoformat(),
        "note": wish.note,
    }
    if task is None:
        assert override is not None
        return {"kind": override.kind, "key": override.key, "override": said}
    declared = Declared.of(task)
    return {
        "kind": "task",
        "key": task.name,
        "active": task.gone_at is None,
        "declared": {"max_running": declared.max_running, "rate": declared.rate},
        "override": None if override is None else said,
    }
