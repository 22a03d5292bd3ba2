"""Problems that somebody has seen: with a note, until a time."""

from datetime import datetime
from typing import Any

from django.db.models.functions import Now
from django.utils.translation import gettext

from ...base.moments import local
from ...reports.texts import excerpt
from .tables import Acknowledgement

MOST = 1_000
LONGEST_NOTE = 200


def acknowledgements(database: str) -> dict[tuple[str, str], str]:
    """Return in words who acknowledged what, by kind and subject, while it holds."""
    holding = Acknowledgement.objects.using(database).filter(until__gt=Now())
    return {
        (each.kind, each.subject): in_words(each)
        for each in holding.order_by("-until")[:MOST]
    }


def in_words(given: Acknowledgement) -> str:
    text = gettext("seen by %(person)s, until %(time)s")
    shown = text % {
        "person": excerpt(given.person, LONGEST_NOTE),
        "time": f"{local(given.until):%Y-%m-%d %H:%M %Z}",
    }
    return f"{shown}: {excerpt(given.note, LONGEST_NOTE)}" if given.note else shown


def acknowledge(
    database: str, kind: str, subject: str, person: str, until: datetime, note: str = ""
) -> None:
    """Let a remark count no more until a time; the latest word about it counts."""
    values: dict[str, Any] = {"person": person, "until": until, "note": note}
    Acknowledgement.objects.using(database).update_or_create(
        kind=kind, subject=subject, defaults={**values, "at": Now()}
    )


def take_back(database: str, kind: str, subject: str) -> int:
    """Let a remark count again; return whether it was acknowledged."""
    given = Acknowledgement.objects.using(database).filter(kind=kind, subject=subject)
    return given.delete()[0]
