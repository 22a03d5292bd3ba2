"""`jobstatus --acknowledge`: say at a terminal that a problem is known."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from ...base.queue_database import database_time
from ...management.auditing import audited
from ...management.parameters import positive_seconds
from ...models.audit_entry import person_at_terminal
from ...reports.durations import seconds_in_words
from ...reports.status import seen_in
from ...reports.texts import one_line
from .acknowledging import acknowledge, take_back
from .limits import alerts
from .remarks import alone

DEFAULT_SECONDS = 4 * 3_600.0
MOST_NAMED = 20


def add_acknowledging(parser: ArgumentParser) -> None:
    """Add the options; --json shows the kind and the subject of each problem."""
    known = parser.add_mutually_exclusive_group()
    for option, text in (
        ("--acknowledge", "let a problem count no more for a time (--for)"),
        ("--take-back", "let it count again"),
    ):
        metavar = ("KIND", "SUBJECT")
        known.add_argument(option, nargs="+", metavar=metavar, help=text)
    parser.add_argument(
        "--for",
        dest="seconds",
        type=positive_seconds,
        default=DEFAULT_SECONDS,
        metavar="4h",
        help="for how long it is acknowledged (default: 4h)",
    )
    parser.add_argument("--note", default="", help="why; shown with the problem")


def acknowledged(alias: str, options: dict[str, Any]) -> str:
    """Acknowledge a problem, or take that back; return what to print.

    Raises CommandError if there is no such problem.
    """
    kind, *rest = options["acknowledge"] or options["take_back"]
    subject, chosen = " ".join(rest), " ".join([kind, *rest])
    if kind not in alerts():
        names = ", ".join(sorted(alerts()))
        text = f"There is no kind {one_line(kind)!r}. There are: {names}."
        raise CommandError(text, returncode=1)
    what = {"chosen": chosen, "note": options["note"]}
    with audited(alias, "acknowledge", "acknowledgement", **what) as entry:
        if options["take_back"]:
            entry.number = take_back(alias, kind, subject)
            done = "counts again" if entry.number else "was not acknowledged"
            return f"{one_line(chosen)} {done}."
        check_that_it_is_there(alias, kind, subject)
        until = database_time(alias) + timedelta(seconds=options["seconds"])
        person, note = person_at_terminal(), options["note"]
        acknowledge(alias, kind, subject, person, until, note)
        entry.number = 1
    length = seconds_in_words(options["seconds"])
    return f"{one_line(chosen)} counts no more for {length}."


def check_that_it_is_there(alias: str, kind: str, subject: str) -> None:
    found = {each.subject for each in alone(alerts()[kind], seen_in(alias))}
    if subject in found:
        return
    named = sorted(one_line(each) for each in found if each)[:MOST_NAMED]
    hint = f" It is about: {', '.join(named)}." if named else ""
    text = f"There is no problem {one_line(f'{kind} {subject}'.strip())!r} now.{hint}"
    raise CommandError(text, returncode=1)
