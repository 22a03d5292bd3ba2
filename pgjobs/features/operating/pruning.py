import json
from collections import Counter

from ...conf import FINISHED, settings
from ...features import modules
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import add_database, ready_database, seconds
from ...management.running import number_of
from ...queue import upkeep
from ...queue.references import references_to, sparing_referred
from ...queue.slices import OLDEST, Position
from ...queue.statements import Execute, execute_on
from ...queue.upkeep import BATCH, limited_ages
from ...sql import statement


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
        statuses = options["status"] or FINISHED
        ages = {status: age for status, age in ages.items() if status in statuses}
        # Only jobs have a status.
        others = [] if options["status"] else modules("prunejobs")
        with ready_database(options["database"]) as alias:
            execute = execute_on(alias)
            with audited(alias, "prune", "job", chosen=in_words(ages)) as entry:
                jobs = entry.number = upkeep.prune(execute, ages)
            prune_batches(execute)
            deleted = {other.NOUN: other.prune(execute, older) for other in others}
            referred = count_referred(execute, ages)
            kept = [("job", *each) for each in count_kept(execute, ages).items()]
            for other in others:
                kept.append((other.NOUN, other.KEPT, other.count_kept(execute, older)))
        if options["verbosity"]:
            gone = [number_of("job", jobs)]
            gone += [number_of(*each) for each in deleted.items() if each[1]]
            self.stdout.write(f"Deleted {' and '.join(gone)}.")
            self.print_kept(referred, kept)

    def print_kept(self, referred: dict[str, int], kept: list[tuple[str, str, int]]):
        """Say what is old enough and was left, and why."""
        for table, number in referred.items():
            them = "it" if number == 1 else "them"
            skipped = number_of("job", number)
            self.stdout.write(f"Skipped {skipped}: {table} refers to {them}.")
        for noun, reason, number in kept:
            if number:
                self.stdout.write(f"Skipped {number_of(noun, number)}: {reason}.")


def in_words(ages: dict[str, float | None]) -> str:
    kept = ages.items()
    return ", ".join(f"{name} of {age:g} s" for name, age in kept if age is not None)


def prune_batches(execute: Execute) -> None:
    after: int | None = 0
    while after is not None:
        _, after = upkeep.prune_batches(execute, after)


def count_referred(execute: Execute, ages: dict[str, float | None]) -> dict[str, int]:
    """Count the old jobs to which tables of the project refer, by the tables' names."""
    limited = limited_ages(ages)
    arrays = {"statuses": list(limited), "ages": list(limited.values())}
    counted = {}
    for reference in references_to(execute, "pgjobs_job"):
        text = statement("referred_jobs").replace("/*table*/", reference.table)
        text = text.replace("/*column*/", reference.column)
        ((number,),) = execute(text, arrays)
        if number:
            counted[reference.table] = number
    return counted


# By what `why_kept.sql` calls the reasons. Not "table": then the table is named.
REASONS = {
    "admission": "a worker has still to see that it has ended",
    "schedule": "the last run of a schedule",
    "unique": "it holds its unique key",
    "dependency": "what depends on it would run it again",
    "successor": "a job still waits for it",
    "parent": "the job that enqueued it has steps, and has not ended",
    "batch": "without it its batch would end otherwise",
    "retry": "a retry of the job because of which it was cancelled would revive it",
}


def count_kept(execute: Execute, ages: dict[str, float | None]) -> dict[str, int]:
    """Count the jobs that are old enough to be pruned and needed, by their reasons.

    Jobs to which tables of the project refer are not among them.
    """
    total: Counter[str] = Counter()
    for status, age in limited_ages(ages).items():
        position: Position | None = OLDEST
        while position is not None:
            counted, position = count_slice(execute, status, age, position)
            total.update(counted)
    return {text: total[name] for name, text in REASONS.items() if total[name]}


def count_slice(
    execute: Execute, status: str, age: float, position: Position
) -> tuple[dict[str, int], Position | None]:
    """Count in a part; return also behind which job to go on, or None at the end."""
    text = sparing_referred(execute, "kept_jobs", "pgjobs_job", "job")
    parameters = {"status": status, "age": age, "limit": BATCH, **position._asdict()}
    ((counted, has_more, time, id),) = execute(text, parameters)
    return json.loads(counted), Position(time, id) if has_more else None
