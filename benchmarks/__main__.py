"""Measure pgjobs: `python -m benchmarks quick`, or `run` for everything.

Tables in Markdown go to the standard output, what is going on to the standard error.
Without DATABASE_URL a PostgreSQL is started for the run (Debian's or the embedded one,
fsync and synchronous_commit on) and removed afterwards. Needs Linux.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import capacity, cases, catalogue, steady, telemetry
from .report import as_json, as_markdown, conditions
from .rounds import run
from .server import Unusable, running_server

BEGIN, END = "<!-- results -->", "<!-- end of the results -->"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        choices=["quick", "run", "capacity", "steady", "telemetry", "list", "render"],
        help="quick: pgjobs against bare SQL, in less than a minute; run: all systems "
        "and cases, or those that are named; capacity: what a job costs, by feature; "
        "steady: sizes, waits and upkeep over hours; "
        "telemetry: what each part of it costs; "
        "list: which there are; render: the tables of an earlier run",
    )
    parser.add_argument(
        "results", type=Path, nargs="?", help="of render: what --json has written"
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="render: put the tables between the marks in this file",
    )
    parser.add_argument("--systems", type=names_of(catalogue.BY_NAME), metavar="A,B")
    parser.add_argument("--cases", type=names_of(cases.CASES), metavar="A,B")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="how often everything is measured"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=10_000,
        metavar="N",
        help="capacity, telemetry: jobs of each feature",
    )
    add_steady(parser)
    parser.add_argument(
        "--server",
        choices=["debian", "embedded"],
        help="which PostgreSQL to start (default: what is installed, Debian's first)",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="measure on DATABASE_URL even if it leads to another machine",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write every figure as JSON"
    )
    return parser


def add_steady(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("steady")
    number = {"type": float, "metavar": "N"}
    group.add_argument("--minutes", default=120.0, help="how long it runs", **number)
    group.add_argument("--rate", type=int, default=500, metavar="N", help="jobs/s")
    group.add_argument(
        "--retention", help="in minutes (default: a twelfth of --minutes)", **number
    )
    group.add_argument(
        "--pinned", default=10.0, help="minutes that a snapshot is kept", **number
    )
    group.add_argument(
        "--after", default=20.0, help="minutes that follow after that", **number
    )


def names_of(known: dict):
    def names(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(
                f"unknown: {', '.join(unknown)} (there are: {', '.join(known)})"
            )
        return chosen

    return names


def main(arguments: Sequence[str]) -> int:
    chosen = parser().parse_args(arguments)
    if chosen.what == "list":
        show_list()
        return 0
    if chosen.what == "render":
        return render(chosen.results, chosen.into)
    if chosen.what in ("capacity", "steady", "telemetry"):
        return measure_features(chosen)
    is_quick = chosen.what == "quick"
    systems = chosen.systems or (catalogue.QUICK if is_quick else catalogue.BY_NAME)
    which = chosen.cases or (cases.QUICK if is_quick else cases.CASES)
    sizes = cases.QUICK_SIZES if is_quick else cases.Sizes()
    if chosen.rounds:
        sizes = replace(sizes, rounds=chosen.rounds)
    try:
        with running_server(
            os.environ.get("DATABASE_URL"),
            kind=chosen.server,
            allow_remote=chosen.allow_remote,
        ) as server:
            command = f"python -m benchmarks {' '.join(arguments)}"
            known = conditions(server, sizes, command)
            results = run(
                [catalogue.BY_NAME[name] for name in systems], which, sizes, server
            )
    except Unusable as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    measured = as_json(known, results)
    if chosen.json:
        chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    print(as_markdown(measured))  # noqa: T201
    return 1 if results.failures or results.left_out else 0


def measure_features(chosen: argparse.Namespace) -> int:
    url = os.environ.get("DATABASE_URL")
    server = {"kind": chosen.server, "allow_remote": chosen.allow_remote}
    try:
        if chosen.what == "telemetry":
            return telemetry.main(chosen.jobs, chosen.rounds or 5, url, **server)
        if chosen.what == "steady":
            return steady.main(steady_plan(chosen), chosen.json, url, **server)
        return capacity.main(chosen.jobs, url, **server)
    except Unusable as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def steady_plan(chosen: argparse.Namespace) -> steady.Plan:
    retention = chosen.retention or chosen.minutes / 12
    return steady.Plan(
        chosen.minutes, retention, chosen.pinned, chosen.after, chosen.rate
    )


def render(results: Path | None, into: Path | None) -> int:
    if results is None:
        print("render needs the file that --json has written.", file=sys.stderr)  # noqa: T201
        return 2
    tables = as_markdown(json.loads(results.read_text()))
    if into is None:
        print(tables)  # noqa: T201
    else:
        into.write_text(with_tables(into.read_text(), tables))
    return 0


def with_tables(text: str, tables: str) -> str:
    """Return the text with these tables between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"It has no {BEGIN} and {END}.")
    return f"{before}{begin}\n\n{tables}\n{end}{after}"


def show_list() -> None:
    for system in catalogue.SYSTEMS:
        print(f"{system.name:20} {system.settings}")  # noqa: T201
    for name, case in cases.CASES.items():
        print(f"{name:20} {case.title}")  # noqa: T201


if __name__ == "__main__":
    # As Ctrl-C does, so that no server and no worker stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
