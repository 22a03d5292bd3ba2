"""The table of figures in `docs/comparison.md`, from the results of the whole run.

    python -m benchmarks.comparison benchmarks/results/performance.json \\
        docs/comparison.md
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .__main__ import with_tables
from .goals import Measured
from .report import median, number

# One line each: its title, the case, the figure, and whether less is better.
FIGURES = (
    ("enqueue one, jobs/s", "enqueue", "jobs/s", False),
    ("enqueue many, jobs/s", "enqueue-many", "jobs/s", False),
    ("one worker, 10 slots, jobs/s", "drain", "jobs/s", False),
    ("two workers, jobs/s", "drain-two", "jobs/s", False),
    ("COMMIT to start, idle worker, p50 ms", "pickup", "p50 ms", True),
    ("COMMIT to start, 200 jobs/s, p50 ms", "steady", "p50 ms", True),
    ("idle worker, processor, %", "idle", "worker CPU %", True),
)
SYSTEMS = (
    "pgjobs", "pgjobs-prefetch", "celery", "procrastinate", "pgqueuer", "pgqueuer-100",
    "chancy", "django-q2", "django-tasks-db", "django-ox", "dj-queue",
)  # fmt: skip


def as_table(run: dict[str, Any]) -> str:
    """Return the table, the best figure of each line in bold, and its conditions."""
    lines = [f"| | {' | '.join(SYSTEMS)} |", "|---|" + "---|" * len(SYSTEMS)]
    for title, case, column, less in FIGURES:
        cells = " | ".join(cells_of(run["figures"][case], column, less))
        lines.append(f"| {title} | {cells} |")
    known = run["conditions"]
    lines += [
        "",
        f"Medians of the run of {known['date']}, pgjobs {known['pgjobs']}, "
        f"on {known['hardware']}, PostgreSQL {known['postgresql'].split()[0]}, "
        f"Python {known['python']}.",
    ]
    return "\n".join(lines) + "\n"


def cells_of(measured: Measured, column: str, less: bool) -> Iterator[str]:
    found = {n: median(column, measured[n]) for n in SYSTEMS if n in measured}
    best = (min if less else max)(found.values())
    for name in SYSTEMS:
        if name not in found:
            yield ""
        else:
            text = number(found[name])
            yield f"**{text}**" if found[name] == best else text


def main(results: str, page: str) -> None:
    """Write the table between the marks of the page."""
    table = as_table(json.loads(Path(results).read_text()))
    Path(page).write_text(with_tables(Path(page).read_text(), table))


if __name__ == "__main__":
    main(*sys.argv[1:])
