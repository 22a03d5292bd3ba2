"""The people of a run: producers enqueue, operators interfere.

    python -m chaos.players producer NAME JOURNAL SEED
    python -m chaos.players operator NAME JOURNAL SEED

Each is a process, with a journal, until its standard input ends.
"""

import os
import random
import select
import sys
import time
from functools import cached_property
from pathlib import Path

import django
import psycopg
from django.db import DatabaseError, InterfaceError, connection, transaction

from .journal import ACKNOWLEDGED, IN_DOUBT, ROLLED_BACK, Journal

# The backlog at which producers hold back.
MOST_UNFINISHED = int(os.environ.get("CHAOS_BACKLOG", "200"))
ERRORS = (DatabaseError, InterfaceError, psycopg.Error)


class Undone(Exception):
    """Rolls a transaction back on purpose."""


class Player:
    """Does one thing after the other until it is asked to stop."""

    def __init__(self, name: str, journal: Journal, seed: int):
        self.name = name
        self.journal = journal
        self.random = random.Random(f"{name} {seed}")
        self.count = 0

    def play(self) -> None:
        while not select.select([sys.stdin], [], [], self.pause())[0]:
            try:
                self.act()
            except ERRORS:
                connection.close()
                time.sleep(0.2)

    def pause(self) -> float:
        raise NotImplementedError

    def act(self) -> None:
        raise NotImplementedError


class Producer(Player):
    """Enqueues in small transactions, some of which it rolls back."""

    looked_at = 0.0
    is_held_back = False

    def pause(self) -> float:
        return self.random.expovariate(8)

    @cached_property
    def orders(self) -> list:
        """Return the kinds that this run wants; all, unless it names some."""
        from .orders import ORDERS

        named = set(filter(None, os.environ.get("CHAOS_ORDERS", "").split(",")))
        if unknown := named - {order.kind for order in ORDERS}:
            raise SystemExit(f"There is no order {unknown}.")
        return [order for order in ORDERS if not named or order.kind in named]

    def act(self) -> None:
        if self.holds_back():
            return
        order = self.random.choice(self.orders)
        self.count += 1
        number = f"{self.name}-{self.count}"
        marks = [f"{number}-{part}" for part in range(order.number)]
        self.journal.write("intent", number=number, kind=order.kind, marks=marks)
        is_undone = self.random.random() < 0.08
        # Django says nothing if it rolls back because a savepoint could not be left.
        committed: list[str] = []
        try:
            with transaction.atomic():
                transaction.on_commit(lambda: committed.append(number))
                ids = order.place(marks, self.random)
                if is_undone:
                    raise Undone
        except Undone:
            self.journal.write(ROLLED_BACK, number=number)
        except ERRORS:
            self.journal.write(IN_DOUBT, number=number)
            raise
        else:
            outcome = ACKNOWLEDGED if committed else IN_DOUBT
            self.journal.write(outcome, number=number, ids=ids if committed else [])

    def holds_back(self) -> bool:
        """Look once a second whether the workers can follow."""
        if time.monotonic() - self.looked_at > 1:
            from pgjobs.models import Job

            unfinished = Job.objects.filter(finished_at=None).count()
            self.is_held_back = unfinished > MOST_UNFINISHED
            self.looked_at = time.monotonic()
        return self.is_held_back


class Operator(Player):
    """Cancels, retries, fails and succeeds jobs, mostly running ones."""

    def pause(self) -> float:
        """Return how long to wait. Of a few jobs, most should end by themselves."""
        return self.random.expovariate(min(1.5, MOST_UNFINISHED / 20))

    def act(self) -> None:
        from pgjobs.models import Job

        act = self.random.choice(["cancel", "cancel", "retry", "fail", "succeed"])
        jobs = Job.objects.filter(finished_at__isnull=act != "retry")
        newest = list(jobs.order_by("-id")[:30])
        if not newest:
            return
        job = self.random.choice(newest)
        self.journal.write("act", act=act, job_id=job.pk)
        has_changed = getattr(job, act)()
        self.journal.write("done", act=act, job_id=job.pk, has_changed=has_changed)


PLAYERS = {"producer": Producer, "operator": Operator}


def main(kind: str, name: str, path: str, seed: str) -> None:
    django.setup()
    PLAYERS[kind](name, Journal(Path(path)), int(seed)).play()


if __name__ == "__main__":
    main(*sys.argv[1:])
