from ...conf import FINISHED, settings
from ...queue import events, upkeep
from ...queue.kept import count_kept, count_kept_events
from ...queue.parts import OLDEST
from ...queue.statements import Execute, execute_on
from ..auditing import noting
from ..databases import QueueCommand
from ..parameters import add_database, ready_database, seconds
from ..running import number_of


class Command(QueueCommand):
    help = (
        "Delete finished jobs, and events, that are old enough. Workers do it too, as "
        "PGJOBS['RETENTION'] and PGJOBS['EVENT_RETENTION'] say. What something "
        "needs is kept."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--older",
            type=seconds,
            metavar="72h",
            help="delete jobs that ended, and events that were published, longer ago "
            "(default: PGJOBS['RETENTION'] and PGJOBS['EVENT_RETENTION'])",
        )
        parser.add_argument(
            "--status",
            action="append",
            choices=FINISHED,
            type=str.upper,
            help="delete only jobs of this status; may be repeated (default: all that "
            "are finished, with --older; else those that PGJOBS['RETENTION'] names); "
            "no events",
        )
        add_database(parser, "all means each")

    def handle(self, **options):
        older = options["older"]
        ages = dict.fromkeys(FINISHED, older) if older is not None else {}
        ages = settings.RETENTION | ages
        chosen = options["status"] or FINISHED
        ages = {status: age for status, age in ages.items() if status in chosen}
        age_of_events = settings.EVENT_RETENTION if older is None else older
        with ready_database(options["database"]) as alias:
            execute = execute_on(alias)
            with noting(alias, "prune", "job", chosen=in_words(ages)) as entry:
                jobs = entry.number = upkeep.prune(execute, ages)
            prune_batches(execute)
            deleted_events = kept_events = 0
            if not options["status"]:
                deleted_events = prune_events(execute, age_of_events)
                kept_events = count_kept_events(execute, age_of_events)
            referred = upkeep.count_referred(execute, ages)
            kept = count_kept(execute, ages)
        if options["verbosity"]:
            deleted = [number_of("job", jobs)]
            if deleted_events:
                deleted.append(number_of("event", deleted_events))
            self.stdout.write(f"Deleted {' and '.join(deleted)}.")
            self.print_kept(referred, kept, kept_events)

    def print_kept(self, referred: dict[str, int], kept: dict[str, int], events: int):
        """Say what is old enough and was left, and why."""
        for table, number in referred.items():
            them = "it" if number == 1 else "them"
            skipped = number_of("job", number)
            self.stdout.write(f"Skipped {skipped}: {table} refers to {them}.")
        for reason, number in kept.items():
            self.stdout.write(f"Skipped {number_of('job', number)}: {reason}.")
        if events:
            skipped = number_of("event", events)
            reason = "jobs that deliver it have failed or not ended"
            self.stdout.write(f"Skipped {skipped}: {reason}.")


def in_words(ages: dict[str, float | None]) -> str:
    kept = ages.items()
    return ", ".join(f"{name} of {age:g} s" for name, age in kept if age is not None)


# In batches, so that no transaction is long.


def prune_batches(execute: Execute) -> None:
    after: int | None = 0
    while after is not None:
        _, after = upkeep.prune_batches(execute, after)


def prune_events(execute: Execute, age: float | None) -> int:
    if age is None:
        return 0
    total, position, has_more = 0, OLDEST, True
    while has_more:
        number, has_more, position = events.prune(execute, age, position)
        total += number
    return total
