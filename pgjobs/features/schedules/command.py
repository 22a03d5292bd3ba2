import difflib
import json
from datetime import datetime, tzinfo

from django.core.management.base import CommandError
from django.db.models import F

from ...base.moments import instant, local
from ...exceptions import AlreadyEnqueued
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import add_database, ready_database, worker_name
from ...management.tables import print_table
from ...reports.texts import one_line
from .declare import run_now
from .tables import Schedule, zone_of

NEXT_RUNS = 5
MOST_KNOWN = 20
TITLES = (
    *("schedule", "task", "when", "next run", "last run", "result", "runs", "state"),
)


class Command(QueueCommand):
    help = (
        "List the schedules: when each runs, and how its last run ended. Or run, pause "
        "or resume some of them."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "verb",
            nargs="?",
            choices=(*ACTS, "list"),
            default="list",
            help="what to do (default: list)",
        )
        parser.add_argument(
            "names",
            nargs="*",
            type=worker_name,
            metavar="NAME",
            help="names of schedules, to run, pause or resume",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON array, for programs"
        )
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            if options["verb"] == "list":
                self.list_schedules(alias, options)
            else:
                self.act(alias, options["verb"], options["names"])

    def act(self, alias: str, verb: str, names: list[str]) -> None:
        if not names:
            raise CommandError(f"Say which schedules to {verb}.", returncode=2)
        for schedule in [named(alias, name) for name in names]:
            with audited(alias, verb, "schedule", object_id=schedule.pk) as entry:
                entry.number, done = ACTS[verb](schedule)
            self.stdout.write(f"{one_line(schedule.name)}: {done}")

    def list_schedules(self, alias: str, options) -> None:
        for name in options["names"] if not self.is_one_of_all else ():
            named(alias, name)  # or it is refused
        schedules = list(
            chosen(alias, options["names"])
            .annotate(last_status=F("last_job__status"))
            .annotate(last_reason=F("last_job__reason"))
            .order_by("name")
        )
        if options["json"]:
            rows = [as_json(schedule) for schedule in schedules]
            self.stdout.write(json.dumps(rows, indent=2))
            return
        rows_shown = [row(schedule) for schedule in schedules]
        print_table(self.stdout, TITLES, rows_shown, "No schedules.", TITLES[:3])


def chosen(alias: str, names: list[str]):
    """Return the schedules with these names, or all."""
    schedules = Schedule.objects.using(alias)
    return schedules.filter(name__in=names) if names else schedules.all()


def named(alias: str, name: str) -> Schedule:
    schedule = Schedule.objects.using(alias).filter(name=name).first()
    if schedule is not None:
        return schedule
    known = (
        Schedule.objects.using(alias).order_by("name").values_list("name", flat=True)
    )
    raise CommandError(
        f"There is no schedule {name!r}. {suggestion(name, list(known[:MOST_KNOWN]))}",
        returncode=1,
    )


def suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(map(one_line, known)) or 'none'}."


# What was done: how many schedules it changed, and a sentence.


def run(schedule: Schedule) -> tuple[int, str]:
    try:
        return 1, f"job {run_now(schedule).pk} was enqueued."
    except AlreadyEnqueued as error:
        raise CommandError(f"{schedule.name}: {error}", returncode=1) from error


def pause(schedule: Schedule) -> tuple[int, str]:
    return (1, "it is paused.") if schedule.pause() else (0, "it was paused already.")


def resume(schedule: Schedule) -> tuple[int, str]:
    return (1, "it fires again.") if schedule.resume() else (0, "it was not paused.")


ACTS = {"run": run, "pause": pause, "resume": resume}


def row(schedule: Schedule) -> tuple:
    return (
        schedule.name,
        schedule.task,
        schedule.in_words,
        moment(schedule.next_run_at, zone_of(schedule)),
        moment(schedule.last_run_at),
        schedule.last_status or "-",
        schedule.run_count,
        ", ".join(filter(None, [str(schedule.state.label), differing(schedule)])),
    )


def moment(value, zone: tzinfo | None = None) -> str:
    return "-" if value is None else f"{local(value, zone):%Y-%m-%d %H:%M:%S %Z}"


def differing(schedule: Schedule) -> str:
    return "differs from the code" if schedule.differences else ""


def iso(value: datetime | None) -> str | None:
    return None if value is None else instant(value).isoformat()


def as_json(schedule: Schedule) -> dict:
    return {
        "name": schedule.name,
        "task": schedule.task,
        "every_seconds": schedule.every and schedule.every.total_seconds(),
        "cron": schedule.cron or None,
        "timezone": schedule.timezone,
        "state": str(schedule.state),
        "next_runs": [iso(each) for each in schedule.next_runs(NEXT_RUNS)],
        "last_run_at": iso(schedule.last_run_at),
        "last_job_id": schedule.last_job_id,
        "last_status": schedule.last_status,
        "last_reason": schedule.last_reason,
        "run_count": schedule.run_count,
        "skip_count": schedule.skip_count,
        "differs": sorted(schedule.differences),
        "error": schedule.error,
    }
