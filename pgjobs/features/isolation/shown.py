"""What people see of the processes of a worker: its row has the figures."""

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

# By the names that metrics have for what has ended a process.
CAUSES: dict[str, str | Promise] = {
    "crash": _("crashed"),
    "memory": _("above the memory limit"),
    "timeout": _("at the time limit"),
    "cancel": _("cancelled"),
    "stop": _("as the worker stopped"),
}


def figures_of(children: Any) -> dict[str, Any]:
    """Return the figures in the row of a worker; zero for what it does not say."""
    row = children if isinstance(children, dict) else {}
    numbers = {name: number_of(row.get(name)) for name in ("busy", "idle", "memory")}
    deaths = row.get("deaths")
    counted = deaths if isinstance(deaths, dict) else {}
    by_cause = {cause: number_of(counted.get(cause)) for cause in CAUSES}
    found = {cause: number for cause, number in by_cause.items() if number}
    return {**numbers, "deaths": found}


def number_of(value: Any) -> int:
    return value if isinstance(value, int) else 0


def in_words(children: Any) -> str:
    """Return how many processes a worker has, what they take, and how many died."""
    figures = figures_of(children)
    text = gettext("%(busy)d busy, %(idle)d idle, %(memory)d MB")
    text %= {**figures, "memory": figures["memory"] / 1e6}
    deaths = ", ".join(
        f"{number} {CAUSES[cause]}" for cause, number in figures["deaths"].items()
    )
    if not deaths:
        return text
    return gettext("%(now)s; killed or died: %(deaths)s") % {
        "now": text,
        "deaths": deaths,
    }
