"""What versions of the code that run side by side declare differently."""

from django.utils.translation import gettext, pgettext

from .reading import rows_of
from .remarks import Remark

MOST_NAMED = 20
VERSION_SHOWN = 20  # characters: without the setting it is a digest


def version_problems(database: str) -> list[Remark]:
    """Name what living workers declare differently, and whose values decide."""
    rows = rows_of(database, "differing_entries", {"most": MOST_NAMED + 1})
    if not rows:
        return []
    names = [described(*row[:3]) for row in rows[:MOST_NAMED]]
    if len(rows) > MOST_NAMED:
        names.append("...")
    versions = dict.fromkeys(each for row in rows for each in row[3])
    shown = [version[:VERSION_SHOWN] for version in versions]
    text = gettext(
        "Workers with different code run side by side (versions %(versions)s). They "
        "declare differently, and for each the first version decides: %(names)s."
    )
    values = {"versions": ", ".join(shown), "names": ", ".join(names)}
    return [Remark(text % values, "worker")]


def described(kind: str, name: str, event: str) -> str:
    texts = {
        "task": pgettext("declared", "task %(name)s"),
        "schedule": pgettext("declared", "schedule %(name)s"),
        "subscription": pgettext("declared", "subscription of %(name)s to %(event)s"),
    }
    return texts[kind] % {"name": name, "event": event}
