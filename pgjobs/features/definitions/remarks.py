"""Which versions of the code run side by side."""

from django.utils.translation import gettext, pgettext

from ...reports.reading import rows_of
from ...reports.remarks import REMARK, Alert, Remark, Seen

MOST_NAMED = 20
VERSION_SHOWN = 20  # characters: without the setting it is a digest


def differing(seen: Seen, _) -> list[Remark]:
    """Name what living workers declare differently, and whose values decide."""
    rows = rows_of(seen.database, "differing_entries", {"most": MOST_NAMED + 1})
    if not rows:
        return []
    names = [named_entry(*row[:3]) for row in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        names.append("...")
    versions = dict.fromkeys(each for row in rows for each in row[3])
    shown = [version[:VERSION_SHOWN] for version in versions]
    text = gettext(
        "Workers with different code run side by side (versions %(versions)s). They "
        "declare these differently, and the first version of each counts: %(names)s."
    )
    values = {"versions": ", ".join(shown), "names": ", ".join(names)}
    return [Remark(text % values, "worker")]


def named_entry(kind: str, name: str, event: str) -> str:
    texts = {
        "task": pgettext("declared", "task %(name)s"),
        "schedule": pgettext("declared", "schedule %(name)s"),
        "subscription": pgettext("declared", "subscription of %(name)s to %(event)s"),
    }
    return texts[kind] % {"name": name, "event": event}


ALERTS = (
    Alert(
        "versions_differ",
        "Living workers have different code and declare something differently.",
        differing,
        level=REMARK,
    ),
)
