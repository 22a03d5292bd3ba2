"""Prove the checker: seed bugs into a copy of the product; each must be caught.

    python -m chaos.bugs [name ...]

A bug is a text of the package that is replaced by another one; it is found wherever
it stands, and must stand there exactly once. Each bug has a short run of its own, with
the orders and faults that it takes to show itself. Exits with 1 if one was not caught.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pgjobs.database.freeze import migration, names_of_migrations, present, released

ROOT = Path(__file__).resolve().parent.parent
SEED = "7"
STOP = "stop a worker for longer than its lease"


class Bug(NamedTuple):
    """What is changed, and which verdict must notice."""

    name: str
    verdict: str
    edits: tuple[tuple[str, str], ...]
    orders: str = "plain,several"
    faults: str = "none"
    seconds: int = 12

    @property
    def backlog(self) -> int:
        """Few long jobs, so that a free worker takes over what another one lost."""
        return 3 if "long" in self.orders else 200


BUGS = [
    Bug(
        "a stale worker records its success",
        "recorded by a stale worker",
        (
            (
                """WHERE id = ANY (%(ids)s::bigint[])
                AND lease_token = ANY (%(lease_tokens)s::bigint[])
                AND worker_id = %(worker_id)s""",
                "WHERE id = ANY (%(ids)s::bigint[]) AND worker_id IS NOT NULL",
            ),
        ),
        "long",
        STOP,
        40,
    ),
    Bug(
        "a stale worker records its failure",
        "recorded by a stale worker",
        (
            (
                """ON job.id = outcome.id AND job.lease_token = outcome.lease_token
                WHERE job.worker_id = %(worker_id)s""",
                "ON job.id = outcome.id WHERE job.worker_id IS NOT NULL",
            ),
        ),
        "long_failing",
        STOP,
        40,
    ),
    Bug(
        "an atomic job commits although it was overtaken",
        "double effect",
        (
            (
                """WHEN NOT EXISTS (SELECT FROM completed)
                THEN pgjobs_refuse(%(overtaken)s)""",
                """WHEN NOT EXISTS (SELECT FROM completed)
                AND %(overtaken)s::text IS NULL THEN pgjobs_refuse('')""",
            ),
        ),
        "long_atomic",
        STOP,
        40,
    ),
    Bug(
        "a lease ends long before it has run out",
        "taken from a living worker",
        (
            (
                "< clock_timestamp() - (worker.lease_until - worker.heartbeat_at)",
                "< clock_timestamp() - interval '0.3 s'",
            ),
            # Where workers ask whether there is anything to rescue.
            (
                "heartbeat_at < clock_timestamp() - least( lease_until - heartbeat_at,",
                "heartbeat_at < clock_timestamp() - least( interval '0.3 s',",
            ),
        ),
        "plain,long",
    ),
    Bug(
        "a rescue counts no crash",
        "illegal transition",
        (
            (
                "crashes = least(crashes + counted, job.attempts, 32767),",
                "",
            ),
        ),
        "long",
        "kill a worker",
        20,
    ),
    Bug(
        "a rescue leaves the old token",
        "illegal transition",
        (
            (
                "lease_token = nextval('pgjobs_lease_token'), "
                "finished_at = CASE WHEN lost.next_status",
                "finished_at = CASE WHEN lost.next_status",
            ),
        ),
        "long",
        "kill a worker",
        20,
    ),
    Bug(
        "a job may crash for ever",
        "illegal transition",
        (("WHEN job.crashes + counted >= job.max_crashes THEN 'FAILED'", ""),),
        "plain",
        "a job that ends its process",
        20,
    ),
    Bug(
        "the number of the attempt is the token",
        "token used twice",
        (
            (
                """lease_token = nextval('pgjobs_lease_token'),
                worker_id = %(worker_id)s,
                started_at = coalesce(started_at, clock_timestamp()),
                last_attempted_at = clock_timestamp()""",
                """lease_token = attempts + 1, worker_id = %(worker_id)s,
                started_at = coalesce(started_at, clock_timestamp()),
                last_attempted_at = clock_timestamp()""",
            ),
        ),
    ),
    Bug(
        "the writer of a job lets it pass its lock",
        "two running in one lock",
        (
            ("WHEN NEW.keys ? 'lock' THEN 'lock'", ""),
            (
                "CREATE UNIQUE INDEX pgjobs_job_lock ON",
                "CREATE INDEX pgjobs_job_lock ON",
            ),
        ),
        "ordered,mutex",
    ),
    Bug(
        "the last in line is next",
        "order violated",
        (
            (
                """ORDER BY keys ->> 'lock', id LIMIT 1 ) AS first
                WHERE first.line = pgjobs_line('lock', free.lock)""",
                """ORDER BY keys ->> 'lock' DESC, id DESC LIMIT 1 ) AS first
                WHERE first.line = pgjobs_line('lock', free.lock)""",
            ),
            ("WHERE is_ordered AND first.id < candidate.id", "WHERE false"),
        ),
        "ordered",
    ),
    Bug(
        "the writer of a job lets it pass its limit",
        "limit exceeded",
        (("WHEN NEW.keys ? 'limit_key' THEN 'limit'", ""),),
        "limited",
    ),
    Bug(
        "a queue has always room for one more",
        "queue limit exceeded",
        (
            (
                """SELECT greatest( max_running - (
                SELECT count(*) FROM pgjobs_job
                WHERE status = 'RUNNING' AND queue_name = queue ), 0 )""",
                "SELECT 1",
            ),
        ),
        "narrow_queue",
    ),
    Bug(
        "units in use are not counted",
        "units exceeded",
        (("WHERE worker.first_id <= worker.last_id AND job", "WHERE false AND job"),),
        "weighty",
    ),
    Bug(
        "a unique key is given up when its job starts",
        "unique violated",
        (
            (
                "WHEN 'unfinished' THEN finished_at IS NULL",
                "WHEN 'unfinished' THEN finished_at IS NULL AND attempts = 0",
            ),
        ),
        "unique",
    ),
    Bug(
        "a schedule moves on by two ticks",
        "tick never fired",
        (
            (
                "SET next_run_at = won.next_run_at,",
                "SET next_run_at = won.next_run_at + interval '2 s',",
            ),
        ),
    ),
    Bug(
        "a tick makes two jobs",
        "tick fired twice",
        (
            (
                "FROM moved LEFT JOIN noted ON noted.schedule_id = moved.id",
                """FROM moved LEFT JOIN noted ON noted.schedule_id = moved.id
                CROSS JOIN generate_series(1, 2)""",
            ),
        ),
    ),
    Bug(
        "an event reaches its first subscriber only",
        "delivery missing",
        (
            (
                "ORDER BY event.id, handler.id ) AS given",
                "ORDER BY event.id, handler.id LIMIT 1 ) AS given",
            ),
        ),
        "event",
    ),
    Bug(
        "the claim does not see the lowest priority",
        "stuck",
        (
            (
                "AND turn >= first_turn",
                "AND turn >= first_turn AND priority > -100",
            ),
            # Where workers with units, or with many queues, look.
            (
                "AND (priority, -turn) > (last_priority, -last_turn)",
                "AND (priority, -turn) > (last_priority, -last_turn)\n"
                "AND priority > -100",
            ),
        ),
        "plain,least",
    ),
    Bug(
        "the claim leaves the lowest priority for later",
        "overlooked",
        (
            (
                "AND turn >= first_turn",
                "AND turn >= first_turn AND (priority > -100\n"
                "OR enqueued_at < clock_timestamp() - interval '8 s')",
            ),
            (
                "AND (priority, -turn) > (last_priority, -last_turn)",
                "AND (priority, -turn) > (last_priority, -last_turn)\n"
                "AND (priority > -100\n"
                "OR enqueued_at < clock_timestamp() - interval '8 s')",
            ),
        ),
        "plain,least",
    ),
    Bug(
        "what is scheduled is never due",
        "stuck",
        (
            (
                "WHERE status = 'SCHEDULED' AND run_after <= statement_timestamp()\n"
                "AND (%(only)s",
                "WHERE status = 'SCHEDULED' AND run_after <= '1999-01-01'\n"
                "AND (%(only)s",
            ),
        ),
        "plain,later",
    ),
    Bug(
        "a retry takes the token back to 0",
        "illegal transition",
        (
            (
                "reason = '', blocked_by_id = NULL,",
                "reason = '', blocked_by_id = NULL, lease_token = 0,",
            ),
        ),
        "plain",
        "none",
        20,
    ),
]


class Unsuitable(Exception):
    """The product has no such text any more, or has it more than once."""


def seeded(bug: Bug, directory: Path) -> Path:
    """Make a copy of the package with the bug in it; return its directory."""
    package = directory / "pgjobs"
    shutil.copytree(
        ROOT / "pgjobs", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for old, new in bug.edits:
        replace_once(package, old, new)
    migrate(package)
    return directory


def migrate(package: Path) -> None:
    """Let a migration install the functions that differ from those of a release."""
    last, now = released(package), present(package)
    if last is None:
        return
    if names := [name for name in now.texts if last.texts.get(name) != now.texts[name]]:
        text = migration(names, last, now, names_of_migrations(package)[-1])
        (package / "migrations/9998_bug.py").write_text(text)


def replace_once(package: Path, old: str, new: str) -> None:
    """Replace a text, however it is indented and broken into lines."""
    pattern = re.compile(r"\s+".join(map(re.escape, old.split())))
    found = [
        (path, text)
        for path in [*package.rglob("*.sql"), *package.rglob("*.py")]
        if path.parent.name != "migrations" and pattern.search(text := path.read_text())
    ]
    number = sum(len(pattern.findall(text)) for _, text in found)
    if number != 1:
        raise Unsuitable(f"This stands in the package {number} times, not once:\n{old}")
    ((path, text),) = found
    path.write_text(pattern.sub(lambda _: new, text))


def violations(bug: Bug, directory: Path) -> dict[str, int]:
    """Run the chaos with the bug; return what the verdicts found."""
    package, results = seeded(bug, directory), directory / "violations.json"
    command = [sys.executable, "-m", "chaos", "--seed", SEED, "--json", str(results)]
    command += ["--seconds", str(bug.seconds), "--healing", "10"]
    command += ["--only", bug.faults, "--orders", bug.orders]
    command += ["--backlog", str(bug.backlog)]
    environment = {**os.environ, "CHAOS_PACKAGE": str(package)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if not results.exists():
        raise Unsuitable(f"The run failed:\n{done.stderr[-3_000:]}")
    return json.loads(results.read_text())


def is_caught(bug: Bug) -> bool:
    """Run one bug and return what became of it."""
    with tempfile.TemporaryDirectory(prefix="pgjobs-chaos-bug-") as scratch:
        found = violations(bug, Path(scratch))
    told = {name: number for name, number in found.items() if number}
    caught = bug.verdict in told
    mark = "caught" if caught else "MISSED"
    print(f"| {bug.name} | {bug.verdict} | {mark} | {told} |", flush=True)  # noqa: T201
    return caught


def main(names: Sequence[str]) -> int:
    if unknown := set(names) - {bug.name for bug in BUGS}:
        raise SystemExit(f"There is no bug {unknown}.")
    print("| bug | must be caught by | | violations |\n|---|---|---|---|")  # noqa: T201
    chosen = [bug for bug in BUGS if not names or bug.name in names]
    caught = [is_caught(bug) for bug in chosen]
    print(f"\n{sum(caught)} of {len(caught)} bugs were caught.")  # noqa: T201
    return 0 if all(caught) else 1


if __name__ == "__main__":
    # As Ctrl-C does, so that no copy and no run stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
