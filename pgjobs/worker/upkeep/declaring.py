"""Declares again what could not be declared at the start."""

from time import monotonic

from django.db import connections

from ...tasks import declaring
from ..connections.connection import OwnConnection
from .chore import NOTHING, Chore, Effects

AGAIN_SECONDS = 30.0


class DeclareAgain(Chore):
    name = "declare"

    def __init__(self, database: str):
        super().__init__(AGAIN_SECONDS)
        self.database = database

    def run(self, connection: OwnConnection) -> Effects:
        if self.database in declaring.unstored:
            declaring.store_all(self.database)
            connections[self.database].close()
        self.done(monotonic())
        return NOTHING
