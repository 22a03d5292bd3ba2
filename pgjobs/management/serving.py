"""What answers on the address of `runjobs --http`."""

from importlib.util import find_spec
from typing import NamedTuple

from django.core.management.base import CommandError

from ..worker import Loop
from ..worker.process.http import (
    LOOPBACK,
    METRICS,
    NO_METRICS,
    Address,
    Metrics,
    Server,
)
from .running import ConsoleReporter

EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104  (only compared)


class Position(NamedTuple):
    """Which of the processes of a supervisor this one is, counted from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def position(text: str) -> Position:
    return Position(*map(int, text.split("/")))


class Serving:
    """The HTTP server of a worker, with its metrics if they can be shown."""

    def __init__(self, options: dict, reporter: ConsoleReporter):
        self.address: Address | None = options["http"]
        self.position: Position = options["position"]
        self.reporter = reporter

    def server(self, loop: Loop) -> Server | None:
        """Return what answers for the length of a `with` block."""
        if self.address is None:
            return None
        metrics = self.metrics(loop)
        try:
            server = Server(self.address, loop, self.reporter.print_request, metrics)
        except (OSError, UnicodeError) as error:  # the latter for impossible names
            reason = getattr(error, "strerror", None) or error
            raise CommandError(
                f"Cannot listen on --http {self.address}: {reason}.", returncode=1
            ) from error
        where = f"Health and nudges on http://{server.address}."
        if metrics is None:
            where += f" No metrics: {NO_METRICS}"
        self.reporter.print(f"{self.reporter.prefix}{where}")
        return server

    def metrics(self, loop: Loop) -> Metrics | None:
        if not find_spec("prometheus_client"):
            return None
        from ..contrib.prometheus import WorkerMetrics  # an extra

        number = self.position.number
        return WorkerMetrics(loop, number, self.siblings())

    def siblings(self) -> list[str]:
        """Return where the other processes of the same supervisor show their own."""
        if self.address is None or not self.address.port:
            return []  # each has taken any free port
        number, total = self.position
        host = EVERYWHERE.get(self.address.host, self.address.host)
        first = Address(host, self.address.port - number + 1)
        others = [each for each in range(1, total + 1) if each != number]
        return [f"http://{first.for_child(each)}{METRICS}?own" for each in others]
