"""Let pgjobs suffer: `python -m chaos --seconds 120 --seed 7`.

Starts a PostgreSQL of its own, workers, producers and operators, inflicts faults
that the seed decides, waits until everything has ended, and judges what happened. The
report goes to the standard output, what is going on to the standard error. Exits with
1 if a promise was broken. Needs Linux; as root also a full disk is tried.
"""

import argparse
import json
import pickle
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .checker.evidence import Evidence
from .checker.judging import judge
from .report import report
from .run import HEALING, Plan, Run, tell
from .server import Unusable
from .timeline import KINDS, NAMES, timeline

EVIDENCE = "evidence.pickle"  # in the directory of --keep


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, metavar="N", help="how long (120)")
    length.add_argument("--hours", type=float, metavar="N", help="how long")
    parser.add_argument("--seed", type=int, metavar="N", help="which faults, and when")
    parser.add_argument(
        "--only",
        metavar="A,B",
        help=f"only these kinds of faults, or none, of: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--orders", metavar="A,B", default="", help="producers order only these kinds"
    )
    parser.add_argument(
        "--healing",
        type=float,
        metavar="N",
        default=HEALING,
        help=f"seconds for everything to end after the last fault ({HEALING:g})",
    )
    parser.add_argument(
        "--backlog",
        type=int,
        metavar="N",
        default=200,
        help="unfinished jobs at which producers hold back (200)",
    )
    add_outputs(parser)
    return parser


def add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan", action="store_true", help="print the timeline of faults, and stop"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIRECTORY",
        help="keep journals, logs and evidence there",
    )
    parser.add_argument(
        "--again",
        type=Path,
        metavar="DIRECTORY",
        help="judge the evidence that --keep has kept, without a run",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the violations there"
    )


def chosen_kinds(only: str | None) -> list:
    if only is None:
        return KINDS
    names = [] if only == "none" else only.split(",")
    if unknown := set(names) - set(NAMES):
        raise SystemExit(f"Unknown: {', '.join(unknown)} (there are: {NAMES})")
    return [kind for kind in KINDS if kind.name in names]


def main(arguments: Sequence[str]) -> int:
    chosen = parser().parse_args(arguments)
    seconds = chosen.hours * 3600 if chosen.hours else chosen.seconds or 120.0
    seed = random.randrange(10**6) if chosen.seed is None else chosen.seed
    planned = timeline(seed, seconds, chosen_kinds(chosen.only))
    if chosen.plan:
        print(json.dumps([fault._asdict() for fault in planned], indent=1))  # noqa: T201
        return 0
    if chosen.again:
        evidence = pickle.loads((chosen.again / EVIDENCE).read_bytes())
    else:
        tell(f"seed {seed}, {seconds:g} s, {len(planned)} faults")
        try:
            wishes = (chosen.healing, chosen.orders, chosen.backlog)
            evidence = evidence_of(Plan(seed, seconds, planned, *wishes), chosen)
        except Unusable as error:
            tell(str(error))
            return 2
        print(f"`python -m chaos --seconds {seconds:g} --seed {seed}`\n")  # noqa: T201
    judged = judge(evidence)
    print("\n".join(report(evidence, judged)))  # noqa: T201
    if chosen.json:
        found = {verdict.name: len(broken) for verdict, broken in judged}
        chosen.json.write_text(json.dumps(found, indent=1))
    return 1 if any(each.violations for each in judged) else 0


def evidence_of(plan: Plan, chosen: argparse.Namespace) -> Evidence:
    with Run(plan) as run:
        evidence = run.play()
        if chosen.keep:
            keep(run.scratch, chosen.keep)
            (chosen.keep / EVIDENCE).write_bytes(pickle.dumps(evidence))
    return evidence


def keep(scratch: Path, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in scratch.glob("*.*"):
        (directory / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    # As Ctrl-C does, so that no server and no worker stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
