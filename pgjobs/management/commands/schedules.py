import json

from django.core.management.base import BaseCommand
from django.db.models import F
from django.utils.timezone import localtime

from ...models import Schedule
from ..parameters import add_database, ready_database
from ..tables import print_table

NEXT_RUNS = 5


class Command(BaseCommand):
    help = "List the schedules: when each runs, and how its last run ended."

    def add_arguments(self, parser):
        parser.add_argument(
            "--json", action="store_true", help="print one JSON array, for programs"
        )
        add_database(parser)

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            schedules = list(
                Schedule.objects.using(alias)
                .annotate(last_status=F("last_job__status"))
                .annotate(last_reason=F("last_job__reason"))
                .order_by("name")
            )
        if options["json"]:
            rows = [as_json(each) for each in schedules]
            self.stdout.write(json.dumps(rows, indent=2))
            return
        print_table(
            self.stdout,
            ("schedule", "task", "when", "next run", "last run", "result", "runs", ""),
            [row(each) for each in schedules],
            "No schedules.",
        )


def row(schedule: Schedule) -> tuple:
    return (
        schedule.name,
        schedule.task,
        schedule.in_words,
        moment(schedule.next_run_at),
        moment(schedule.last_run_at),
        schedule.last_status or "-",
        schedule.run_count,
        ", ".join(filter(None, [str(schedule.state.label), differing(schedule)])),
    )


def moment(value) -> str:
    return "-" if value is None else localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z")


def differing(schedule: Schedule) -> str:
    return "differs from the code" if schedule.differences else ""


def as_json(schedule: Schedule) -> dict:
    return {
        "name": schedule.name,
        "task": schedule.task,
        "every_seconds": schedule.every and schedule.every.total_seconds(),
        "cron": schedule.cron or None,
        "timezone": schedule.timezone,
        "state": str(schedule.state),
        "next_runs": [each.isoformat() for each in schedule.next_runs(NEXT_RUNS)],
        "last_run_at": schedule.last_run_at and schedule.last_run_at.isoformat(),
        "last_job_id": schedule.last_job_id,
        "last_status": schedule.last_status,
        "last_reason": schedule.last_reason,
        "run_count": schedule.run_count,
        "skip_count": schedule.skip_count,
        "differs": sorted(schedule.differences),
        "error": schedule.error,
    }
