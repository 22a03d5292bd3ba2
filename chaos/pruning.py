"""Prune the members of batches all the time, until the process is killed."""

import time

import django
from django.db import Error, connection

OLDER = 0.2  # seconds
FINISHED = ("SUCCESSFUL", "FAILED", "CANCELLED")
MEMBERS = (
    "SELECT id FROM pgjobs_job WHERE batch_id IS NOT NULL ORDER BY id DESC LIMIT 200"
)


def prune_once() -> None:
    from pgjobs.queue.statements import execute_on
    from pgjobs.queue.upkeep import OLDEST, Batch, prune_slice

    execute = execute_on("default")
    members = [id for (id,) in execute(MEMBERS, {})]
    for status in FINISHED:
        prune_slice(execute, status, OLDER, OLDEST, Batch(only=members))


def main() -> None:
    django.setup()
    while True:
        try:
            prune_once()
        except Error:
            connection.close()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
