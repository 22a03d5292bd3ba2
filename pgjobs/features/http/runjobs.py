"""What `runjobs --http` adds: an address that answers while the worker runs."""

import re
from argparse import SUPPRESS, ArgumentTypeError
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from django.core.management.base import CommandError

from ...management.running import ConsoleReporter
from ...worker import Loop
from .. import modules
from .server import (
    LAST_PORT,
    LOOPBACK,
    METRICS,
    NO_METRICS,
    Address,
    Metrics,
    Server,
)

EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104  (only compared)
ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[\w.-]*):)?([0-9]{1,5})", re.ASCII)


class Position(NamedTuple):
    """Which of the processes of a supervisor this one is, counted from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def position(text: str) -> Position:
    return Position(*map(int, text.split("/")))


def http_address(text: str) -> Address:
    """Take PORT, :PORT, HOST:PORT or [IPV6]:PORT. The default host is loopback."""
    match = ADDRESS.fullmatch(text)
    if not match or int(match[2]) > LAST_PORT:
        raise ArgumentTypeError(
            f"must be PORT, HOST:PORT or [IPV6]:PORT with a port up to {LAST_PORT}, "
            f"got {text!r}."
        )
    return Address((match[1] or LOOPBACK).strip("[]"), int(match[2]))


def add_arguments(parser) -> None:
    parser.add_argument(
        "--http",
        type=http_address,
        metavar="ADDRESS",
        help="answer GET /healthz, /readyz and /metrics, and POST /nudge there: "
        "[HOST:]PORT, for instance 8652 (default host: 127.0.0.1; with --processes: "
        "the n-th worker on the n-th port from there)",
    )
    # Set by a supervisor for its workers.
    parser.add_argument(
        "--position", type=position, default=Position(1, 1), help=SUPPRESS
    )


def check_processes(number: int, options: dict) -> None:
    """Raise CommandError if so many processes cannot listen."""
    http: Address | None = options["http"]
    if http and http.for_child(number).port > LAST_PORT:
        raise CommandError(
            f"--http {http} leaves no port for each of {number} processes: "
            f"they take that one and the following, up to {LAST_PORT}.",
            returncode=2,
        )


def child_arguments(options: dict, number: int, processes: int) -> list[str]:
    """Return what the worker process with this number is told.

    `processes`: how many each database has.
    """
    http: Address | None = options["http"]
    if http is None:
        return []
    place = Position((number - 1) % processes + 1, processes)
    return ["--http", str(http.for_child(number)), "--position", str(place)]


def serving(
    loop: Loop, options: dict, reporter: ConsoleReporter
) -> AbstractContextManager:
    """Return what answers for the length of a `with` block."""
    address: Address | None = options["http"]
    if address is None:
        return nullcontext()
    metrics = metrics_of(loop, address, options["position"])
    try:
        server = Server(address, loop, reporter.print_request, metrics)
    except (OSError, UnicodeError) as error:  # the latter for impossible names
        reason = getattr(error, "strerror", None) or error
        raise CommandError(
            f"Cannot listen on --http {address}: {reason}.", returncode=1
        ) from error
    where = f"Health and nudges on http://{server.address}."
    if metrics is None:
        where += f" No metrics: {NO_METRICS}"
    reporter.print(f"{reporter.prefix}{where}")
    return server


def metrics_of(loop: Loop, address: Address, place: Position) -> Metrics | None:
    others = siblings(address, place)
    found = (
        module.metrics(loop, place.number, others) for module in modules("serving")
    )
    return next(found, None)


def siblings(address: Address, place: Position) -> list[str]:
    """Return where the other processes of the same supervisor show their own."""
    if not address.port:
        return []  # each has taken any free port
    host = EVERYWHERE.get(address.host, address.host)
    first = Address(host, address.port - place.number + 1)
    others = [each for each in range(1, place.total + 1) if each != place.number]
    return [f"http://{first.for_child(other)}{METRICS}?own" for other in others]
