"""`queues`, `pausejobs` and `resumejobs`."""

import json
from dataclasses import asdict
from typing import Any

from ...base.queue_database import database_time
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import (
    add_database,
    add_verbs,
    queue_name,
    ready_database,
    whole_number,
)
from ...management.running import number_of
from ...management.speaking import examples_of
from ...management.tables import print_table
from ...models.job import Job
from ...models.queue import Queue
from ...reports.status import QueueStatus, add_known, queue_statuses
from ...reports.texts import one_line
from .choosing import near, refuse
from .status import age, remark

MOST_NAMED = 20  # queues


class Command(QueueCommand):
    help = (
        "List the queues: their jobs, limits and pauses. Or limit how many jobs of a "
        "queue all workers together run at a time. 'pausejobs' pauses queues."
    )

    def add_arguments(self, parser):
        verbs, _ = add_verbs(parser, "queues")
        limiting = verbs.add_parser(
            "limit",
            help="limit the running jobs of a queue, or lift its limit",
            **examples_of("queues limit"),
        )
        limiting.add_argument(
            "name", type=queue_name, metavar="QUEUE", help="name of a queue"
        )
        limiting.add_argument(
            "limit",
            type=number_or_none,
            metavar="N",
            help="the most jobs that run at a time; 'none' lifts the limit",
        )
        limiting.add_argument("--note", help="why; shown in the admin and here")
        add_database(limiting, "all means each")

    def handle(self, **options):
        with ready_database(options.get("database")) as alias:
            if options["verb"] == "limit":
                self.limit(alias, options)
            else:
                self.list_queues(alias, bool(options.get("json")))

    def list_queues(self, alias: str, as_json: bool) -> None:
        queues = all_queues(alias)
        if as_json:
            self.stdout.write(json.dumps([asdict(each) for each in queues], indent=2))
            return
        titles = ("queue", "ready", "scheduled", "waiting", "running", "oldest ready")
        rows = [
            (
                one_line(queue.name),
                *(queue.shown(each) for each in titles[1:5]),
                age(queue.oldest_ready_seconds),
            )
            for queue in queues
        ]
        notes = [remark(queue) for queue in queues]
        print_table(self.stdout, titles, rows, "No queues.", titles[:1], notes)

    def limit(self, alias: str, options: dict[str, Any]) -> None:
        name, most, note = options["name"], options["limit"], options["note"]
        queues = Queue.objects.using(alias)
        queue, is_new = queues.get_or_create(name=name)
        columns = {"max_running": most} | ({} if note is None else {"note": note})
        said = f"at most {most}" if most else "no limit"
        chosen = f"{name}: {said}"
        what = {"object_id": queue.pk, "chosen": chosen, "note": note or ""}
        with audited(alias, "limit", "queue", **what) as entry:
            changed = queues.filter(pk=queue.pk).exclude(**columns)
            entry.number = changed.update(**columns)
        done = "is now" if entry.number else "was already"
        of = "unlimited" if most is None else f"limited to {number_of('job', most)}"
        self.stdout.write(f"{one_line(name)} {done} {of}.{hint(queue, is_new)}")


def number_or_none(text: str) -> int | None:
    return None if text == "none" else whole_number(text)


def all_queues(alias: str) -> list[QueueStatus]:
    """Return the queues that have unfinished jobs or a row, by name."""
    now = database_time(alias)
    known = Queue.objects.using(alias)
    found = {each.name: each for each in queue_statuses(alias, now)}
    for name in known.values_list("name", flat=True):
        found.setdefault(name, QueueStatus(name))
    return add_known(list(found.values()), known, now)


class PauseCommand(QueueCommand):
    help = (
        "Pause queues: workers do not start their jobs until 'resumejobs'. "
        "Running jobs end, and jobs can still be enqueued."
    )

    def add_arguments(self, parser):
        add_queues(parser)
        parser.add_argument("--note", help="why; shown in the admin and by jobstatus")
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]):
            for name in options["queues"]:
                report = pause(name, options["note"])
                if options["verbosity"]:
                    self.stdout.write(report)


def pause(name: str, note: str | None) -> str:
    """Pause a queue, even one that was never used; return what to print."""
    queue, is_new = Queue.objects.get_or_create(name=name)
    if note is not None:
        Queue.objects.filter(pk=queue.pk).update(note=note)
    what = {"object_id": queue.pk, "chosen": name, "note": note or ""}
    with audited(Queue.objects.db, "pause", "queue", **what) as entry:
        entry.number = int(queue.pause())
    if not entry.number:
        changed = "" if note is None else f" Its note is now: {note}"
        return f"{name} was paused already.{changed}"
    jobs = Job.objects.filter(queue_name=name)
    ready = number_of("ready job", jobs.ready().count())
    running = number_of("running job", jobs.running().count())
    report = f"Paused {name}: {ready} held back, {running} left to end."
    return report + hint(queue, is_new)


def hint(queue: Queue, is_new: bool) -> str:
    """Say so if no job has used a queue yet: its name may be wrong."""
    if not is_new or Job.objects.filter(queue_name=queue.name).exists():
        return ""
    others = known_queues(queue)
    return f" No job has used this queue yet. {near(queue.name, {*others})}"


def known_queues(but: Queue | None = None) -> list[str]:
    """Return the names of some queues that have a row, or unfinished jobs."""
    alias = Queue.objects.db
    others = Queue.objects.exclude(pk=but.pk if but else None).order_by("name")
    names = {*others.values_list("name", flat=True)[:MOST_NAMED]}
    names |= {queue.name for queue in queue_statuses(alias, database_time(alias))}
    return sorted(names - {but.name if but else ""})[:MOST_NAMED]


def no_queue(name: str, known: set[str]) -> str:
    return f"There is no queue {one_line(name)!r}. {near(name, known)}"


class ResumeCommand(QueueCommand):
    help = "Resume queues that were paused: workers start their jobs again, at once."

    def add_arguments(self, parser):
        add_queues(parser)
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            known = {*known_queues()}
            found = Queue.objects.filter(name__in=options["queues"])
            known |= {*found.values_list("name", flat=True)}
            unknown = [name for name in options["queues"] if name not in known]
            refuse(self, [no_queue(name, known) for name in unknown])
            for name in options["queues"]:
                with audited(alias, "resume", "queue", chosen=name) as entry:
                    changed = entry.number = Queue.objects.filter(name=name).resume()
                if options["verbosity"]:
                    self.stdout.write(
                        f"Resumed {name}." if changed else f"{name} was not paused."
                    )


def add_queues(parser) -> None:
    parser.add_argument(
        "queues", nargs="+", type=queue_name, metavar="QUEUE", help="name of a queue"
    )
