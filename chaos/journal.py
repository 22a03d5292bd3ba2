"""What was asked for, written down by the asking process before and after each COMMIT.

One line of JSON a record, on disk (fsync) before anything else is done. So a mark
whose transaction was acknowledged is committed for certain, one that was rolled back
is not, and whatever has neither record is in doubt.
"""

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

ACKNOWLEDGED, ROLLED_BACK, IN_DOUBT = "acknowledged", "rolled back", "in doubt"


class Transaction(NamedTuple):
    """What one transaction was to commit: marks of jobs, or of events."""

    number: str
    kind: str
    marks: list[str]
    outcome: str  # one of the three above
    ids: list[int]
    ended_at: float = 0.0  # 0 if nothing is known of its end


class Journal:
    """A producer's or an operator's own file."""

    def __init__(self, path: Path):
        self.file = path.open("a")

    def write(self, record: str, **what) -> None:
        line = {"record": record, "at": time.time(), **what}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def records_in(directory: Path, pattern: str) -> list[dict]:
    """Return what the journals say; a last line that was cut off is none."""
    found = []
    for path in sorted(directory.glob(pattern)):
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def transactions_in(directory: Path) -> list[Transaction]:
    """Return what the producers wanted, with what became of it."""
    intents: dict[str, dict] = {}
    outcomes: dict[str, dict] = {}
    for record in records_in(directory, "producer*.journal"):
        is_intent = record["record"] == "intent"
        (intents if is_intent else outcomes)[record["number"]] = record
    return [
        transaction_of(intent, outcomes.get(number))
        for number, intent in intents.items()
    ]


def transaction_of(intent: dict, outcome: dict | None) -> Transaction:
    known = outcome or {"record": IN_DOUBT}
    return Transaction(
        intent["number"],
        intent["kind"],
        intent["marks"],
        known["record"],
        known.get("ids", []),
        known.get("at", 0.0),
    )
