"""The exit codes of the commands: what each code means beyond the common rule."""

from collections.abc import Iterator

RULE = (
    "",
    "## Exit codes",
    "",
    "| code | of each command |",
    "|---|---|",
    "| 0 | Done. That there was nothing to do is no error. |",
    "| 1 | Refused: the database cannot be used, `manage.py check` finds an error, "
    "or one of the cases that stand below with the command. |",
    "| 2 | A wrong command line. |",
    "| 141 | What read the output has left, as `head` does. |",
    "",
    "With `--database all` a command goes on to the next database, and ends with the "
    "largest code. [`runjobs`](operations.md#exit-codes-of-runjobs) has more codes.",
)
EXIT_CODES: dict[str, dict[int, str]] = {
    "enqueuejob": {
        0: "also if another job holds the unique key, unless the task says "
        '`on_conflict="raise"`',
        1: "the task is unknown, its arguments, options or `--run-after` are wrong, "
        "or the unique key is held",
    },
    "importtasks": {
        0: "also if some are left where they are",
        1: "the tables of the other queue are not in this database, or there is no "
        "`django.tasks`",
        2: "`--cluster` is given for another source than django-q2",
    },
    "jobgroups": {},
    "jobs": {
        0: "also if no job matches, or all are skipped",
        1: "`show`, `tail` or an act finds no job with an id, a filter names a task, "
        "queue, worker, schedule or error that there is not, or you did not answer yes",
        2: "an act has neither an id nor a filter, or a filter cannot be read",
    },
    "jobstatus": {
        0: "also if there are problems, without `--check`",
        1: "with `--check`, there is a problem; with `--acknowledge`, there is none of "
        "that kind and subject",
        2: "`--watch` stands beside `--database all`",
    },
    "movejobs": {
        0: "also if nothing had to be moved",
        1: "no option selects jobs, some still run after `--wait`, jobs outside the "
        "move are tied to it, both databases have the same block of ids, or the "
        "destination refuses a row",
    },
    "pausejobs": {0: "also if a queue was paused already"},
    "pgjobsroles": {1: "a role is not given as `KIND=ROLE`, with a kind that there is"},
    "prunejobs": {0: "also if rows of other tables keep some jobs"},
    "queues": {0: "also if the limit was the same already"},
    "reencryptjobs": {
        0: "also if nothing had to be encrypted",
        1: "something is left that the output names: rows whose key is unknown, that "
        "others held, or that are not encrypted; or there is no key",
    },
    "replayevents": {
        1: "the task does not subscribe to events, or `--since` cannot be read"
    },
    "resumejobs": {
        0: "also if a queue was not paused",
        1: "there is no queue of that name; then none is resumed",
    },
    "runjobs": {},
    "schedules": {
        0: "also if a schedule was paused already, or was not paused",
        1: "a name is that of no schedule, or the key of the run is held",
        2: "an act names no schedule",
    },
    "shardids": {
        1: "the block is too large, or ids are beyond it already, or `--block` stands "
        "beside `--database all`"
    },
    "tasks": {
        0: "also if nothing had to be changed",
        1: "there is no such task, its code declares no such option, or the value is "
        "wrong",
        2: "an act names no task or key, or `set` sets nothing",
    },
    "workers": {
        0: "also if a worker had been asked so already",
        1: "no worker of that name or id is alive; then none is asked",
        2: "an act has neither names nor `--all`, or both",
    },
    "synctasks": {
        0: "also if the definitions differed, without `--check`",
        1: "with `--check`, the definitions differ; or a task is declared wrongly",
    },
}


def exit_codes(command: str) -> Iterator[str]:
    """Yield a line for each exit code of which the common rule says too little."""
    for code, words in EXIT_CODES[command].items():
        yield f"- Exit code {code}: {words}."
    if EXIT_CODES[command]:
        yield ""
