"""What happened in any process: each writes lines into one file, the suite reads them.

So the suite sees what a worker did also of a backend that keeps no results.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "TASKS_CONFORMANCE_JOURNAL"


def note(kind: str, **values: Any) -> None:
    """Append a line. Without a journal, as in production, do nothing."""
    if not (path := os.environ.get(VARIABLE)):
        return
    entry = {"kind": kind, "at": time.time(), "process": os.getpid(), **values}
    line = json.dumps(entry, default=repr).encode() + b"\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line)  # in one piece, because several processes write


def entries(kind: str, **wanted: Any) -> list[dict[str, Any]]:
    """Return the entries of a kind, oldest first, whose values are the given ones."""
    path = Path(os.environ[VARIABLE])
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = (json.loads(line) for line in lines if line.endswith("\n"))
    return [
        entry
        for entry in found
        if entry["kind"] == kind
        and all(entry.get(name) == value for name, value in wanted.items())
    ]
