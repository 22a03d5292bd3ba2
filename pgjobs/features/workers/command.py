"""`manage.py workers`: the living workers, and what operators want of them."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from ...base.ids import read_id
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import (
    add_database,
    add_verbs,
    ready_database,
    whole_number,
)
from ...management.running import number_of
from ...management.speaking import examples_of
from ...management.tables import print_table
from ...models.job import Job
from ...models.worker import QUIET, STOP, Worker
from ...reports.durations import seconds_in_words
from ...reports.status import WorkerStatus, seen_in, worker_statuses
from ...reports.texts import one_line
from ..operating.choosing import near
from ..operating.status import state_of
from .queue import order

MOST_LISTED = 1_000
TITLES = ("worker", "state", "running", "slots", "queues", "last beat")
WANTED = {"quiet": QUIET, "resume": "", "stop": STOP}
VERBS = {
    "quiet": "claim no more jobs, and stay until resumed or stopped",
    "resume": "claim jobs again",
    "stop": "end as after SIGTERM: running jobs may end within the grace",
}
DONE = {"quiet": "to be quiet", "resume": "to go on", "stop": "to stop"}


class Command(QueueCommand):
    help = (
        "List the workers. Or quiet, resume or stop some of them, on whatever machine "
        "they are."
    )

    def add_arguments(self, parser):
        verbs, listing = add_verbs(parser, "workers")
        listing.add_argument(
            "--limit",
            type=whole_number,
            default=MOST_LISTED,
            metavar="N",
            help="list at most so many (default: %(default)s)",
        )
        for verb, text in VERBS.items():
            each = verbs.add_parser(verb, help=text, **examples_of(f"workers {verb}"))
            each.add_argument(
                "names", nargs="*", metavar="WORKER", help="its name, or its id"
            )
            each.add_argument("--all", action="store_true", help="all that are alive")
            each.add_argument("--note", default="", help="why; for the audit trail")
            add_database(each, "all means each")

    def handle(self, **options):
        with ready_database(options.get("database")) as alias:
            if options["verb"] in VERBS:
                self.act(alias, options["verb"], options)
            else:
                limit = options.get("limit") or MOST_LISTED
                self.list_workers(alias, limit, bool(options.get("json")))

    def list_workers(self, alias: str, limit: int, as_json: bool) -> None:
        seen = seen_in(alias)
        jobs, some = Job.objects.using(alias), seen.workers[:limit]
        workers = worker_statuses(jobs, some, seen.now)
        if (more := len(seen.workers) - len(some)) > 0:
            left = number_of("more worker", more)
            self.stderr.write(f"And {left}: --limit shows more.")
        if as_json:
            shown = [asdict(each) | {"state": state_of(each)} for each in workers]
            self.stdout.write(json.dumps(shown, indent=2))
            return
        otherwise = "No worker is alive. Start one with: manage.py runjobs"
        cells = [row(each) for each in workers]
        print_table(self.stdout, TITLES, cells, otherwise, ("worker", "queues"))

    def act(self, alias: str, verb: str, options: dict[str, Any]) -> None:
        workers = self.chosen(alias, options["names"], options["all"])
        names = ", ".join(one_line(each.name) for each in workers)
        what = {"chosen": names, "note": options["note"]}
        if len(workers) == 1:
            what["object_id"] = workers[0].pk
        with audited(alias, verb, "worker", **what) as entry:
            ids = [each.pk for each in workers]
            entry.number = order(alias, ids, WANTED[verb])
        asked = number_of("worker", entry.number)
        text = f"Asked {asked} {DONE[verb]}."
        if left := len(workers) - entry.number:
            text += f" {number_of('other', left)} had been asked so before, or to stop."
        if options["verbosity"]:
            self.stdout.write(text)

    def chosen(self, alias: str, names: list[str], is_all: bool) -> list[Worker]:
        """Return the workers that are meant. Raises CommandError."""
        if is_all == bool(names):
            raise CommandError("Name workers, or say --all.", returncode=2)
        alive = seen_in(alias).alive
        if is_all:
            return alive
        found: dict[int, Worker] = {}
        for name in names:
            if not (meant := meant_by(name, alive)):
                known = {each.name for each in alive}
                text = f"No worker {one_line(name)!r} is alive. {near(name, known)}"
                raise CommandError(text, returncode=1)
            found |= {each.pk: each for each in meant}
        return list(found.values())


def meant_by(name: str, alive: list[Worker]) -> list[Worker]:
    """Return the workers with this name, or the one with this id.

    Raises CommandError if it is the name of one and the id of another: "#5" is an id.
    """
    number = read_id(name.removeprefix("#"))
    by_id = [each for each in alive if each.pk == number]
    by_name = [each for each in alive if each.name == name]
    if not by_name or (by_id and name.startswith("#")):
        return by_id
    others = [each for each in by_id if each not in by_name]
    if others:
        ids = " or ".join(f"#{each.pk}" for each in [*by_name, *others])
        text = (
            f"{one_line(name)!r} is the name of one worker, and the id of "
            f"{one_line(others[0].name)!r}. Say which one by its id: {ids}."
        )
        raise CommandError(text, returncode=1)
    return by_name


def row(worker: WorkerStatus) -> tuple[Any, ...]:
    return (
        one_line(worker.name),
        state_of(worker),
        worker.running,
        worker.slots,
        one_line(worker.queues),
        seconds_in_words(worker.heartbeat_seconds) or "-",
    )
