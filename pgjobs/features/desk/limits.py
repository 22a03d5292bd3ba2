"""What PGJOBS["ALERTS"] says of each kind of remark: its limit, and its level."""

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured

from ...conf import settings
from ...reports.remarks import PROBLEM, REMARK, Alert
from .. import entries

FIRST = "no_worker"
OFF = "off"
LEVELS = (PROBLEM, REMARK, OFF)


def share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a share such as 0.5, got {value!r}.")
    if not 0 < value <= 1:
        raise ValueError(f"must be more than 0, and 1 at most, got {value!r}.")
    return float(value)


class Chosen(NamedTuple):
    """How one kind of remark is looked for."""

    level: str
    value: Any


@cache
def alerts() -> dict[str, Alert]:
    """Return the kinds by their names, in the order in which they are shown."""
    found = sorted(entries("remarks", "ALERTS"), key=lambda alert: alert.kind != FIRST)
    return {alert.kind: alert for alert in found}


def chosen(alert: Alert) -> Chosen:
    """Return what the setting says of a kind; raise ImproperlyConfigured if wrong."""
    try:
        return read(alert, settings.ALERTS.get(alert.kind, {}))
    except ValueError as error:
        message = f"PGJOBS['ALERTS'][{alert.kind!r}] {error}"
        raise ImproperlyConfigured(message) from None


def read(alert: Alert, given: Any) -> Chosen:
    """Return what is meant by a level, a limit, or a dict of both.

    Raises ValueError with the rest of a sentence.
    """
    if isinstance(given, str):
        given = {"level": given}
    elif not isinstance(given, Mapping):
        given = {"value": given}
    if unknown := given.keys() - {"level", "value"}:
        raise ValueError(
            f"knows 'level' and 'value', but not {min(unknown, key=str)!r}."
        )
    level = given.get("level", alert.level)
    if level not in LEVELS:
        raise ValueError(f"must have a level of {', '.join(LEVELS)}, got {level!r}.")
    if "value" not in given:
        return Chosen(level, alert.value)
    if alert.read is None:
        raise ValueError(f"has no limit, only a level: {', '.join(LEVELS)}.")
    return Chosen(level, alert.read(given["value"]))


class Fault(NamedTuple):
    message: str
    hint: str | None = None


def faults() -> Iterator[Fault]:
    """Yield what is wrong with PGJOBS["ALERTS"]."""
    for kind, given in settings.ALERTS.items():
        alert = alerts().get(kind)
        if alert is None:
            near = difflib.get_close_matches(str(kind), alerts(), n=1)
            known = f"The kinds are {', '.join(alerts())}."
            hint = f"Did you mean {near[0]!r}?" if near else known
            yield Fault(f"PGJOBS['ALERTS'] has no kind {kind!r}.", hint)
            continue
        try:
            read(alert, given)
        except ValueError as error:
            yield Fault(f"PGJOBS['ALERTS'][{kind!r}] {error}")
