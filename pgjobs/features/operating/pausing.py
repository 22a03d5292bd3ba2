"""`pausejobs` and `resumejobs`."""

from ...base.queue_database import database_time
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import add_database, add_queues, ready_database
from ...management.running import number_of
from ...models.job import Job
from ...models.queue import Queue
from ...reports.status import queue_statuses

MOST_NAMED = 20  # queues


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
    what = {"object_id": queue.pk, "note": note or ""}
    with audited(Queue.objects.db, "pause", "queue", **what) as entry:
        entry.number = int(queue.pause())
    if not entry.number:
        changed = "" if note is None else f" Its note is now: {note}"
        return f"{name} was paused already.{changed}"
    jobs = Job.objects.filter(queue_name=name)
    ready = number_of("ready job", jobs.ready().count())
    running = number_of("running job", jobs.running().count())
    report = f"Paused {name}: {ready} held back, {running} left to end."
    if is_new and not jobs.exists():
        known = ", ".join(known_queues(queue))
        report += f" No job has used this queue yet. Known queues: {known or 'none'}."
    return report


def known_queues(but: Queue) -> list[str]:
    """Return the names of some queues that have a row, or unfinished jobs."""
    alias = Queue.objects.db
    others = Queue.objects.exclude(pk=but.pk).order_by("name")
    names = {*others.values_list("name", flat=True)[:MOST_NAMED]}
    names |= {queue.name for queue in queue_statuses(alias, database_time(alias))}
    return sorted(names)[:MOST_NAMED]


class ResumeCommand(QueueCommand):
    help = "Resume queues that were paused: workers start their jobs again, at once."

    def add_arguments(self, parser):
        add_queues(parser)
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            for name in options["queues"]:
                with audited(alias, "resume", "queue", chosen=name) as entry:
                    changed = entry.number = Queue.objects.filter(name=name).resume()
                if options["verbosity"]:
                    self.stdout.write(
                        f"Resumed {name}." if changed else f"{name} was not paused."
                    )
