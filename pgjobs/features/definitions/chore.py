"""Looks which versions of the code live, and whether what they declare is in force."""

from collections.abc import Callable
from time import monotonic

from django.db import connections

from ...worker.connections.connection import OwnConnection
from ...worker.upkeep.chore import NOTHING, Chore, Effects
from . import declaring, manifests

LOOK_SECONDS = 60.0


class Versions(Chore):
    """One statement a minute. What it does is in declaring.py."""

    name = "versions"
    takes = ("row", "database")

    def __init__(self, row: dict, database: str):
        super().__init__(LOOK_SECONDS)
        self.due = monotonic() + LOOK_SECONDS  # the worker has just stored its own
        self.row = row  # of the worker; the heartbeat stores its `manifest_id`
        self.database = database

    def run(self, connection: OwnConnection) -> Effects:
        view = manifests.look(connection.execute, self.row["id"])
        self.done(monotonic())
        # Each start of a stranger lets go what it does not declare itself.
        is_out_of_date = view.is_first if view.has_strangers else view.has_changed
        if not view.is_stored:
            self.on_django(declaring.store_declared)
            self.row["manifest_id"] = declaring.stored_ids.get(self.database)
        elif view.may_judge and is_out_of_date:
            self.on_django(declaring.bring_up_to_date)
        return NOTHING

    def on_django(self, step: Callable[[str], None]) -> None:
        """Do what needs the models, on a connection that the loop does not keep."""
        connection = connections[self.database]
        try:
            step(self.database)
        finally:
            if not connection.in_atomic_block:  # as it is in a test
                connection.close()


CHORES = (Versions,)
