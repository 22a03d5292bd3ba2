"""The parts of a schedule's declaration that people may change, each as one."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from django.db.models import Choices
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy

from ...base.moments import instant

INTERVALS = (
    (604_800, ngettext_lazy("%(count)d week", "%(count)d weeks", "count")),
    (86_400, ngettext_lazy("%(count)d day", "%(count)d days", "count")),
    (3_600, ngettext_lazy("%(count)d hour", "%(count)d hours", "count")),
    (60, ngettext_lazy("%(count)d minute", "%(count)d minutes", "count")),
)


class Unit(NamedTuple):
    """Fields of a schedule that people change together."""

    label: str
    fields: tuple[str, ...]


UNITS = {
    "when": Unit(_("when"), ("every", "cron", "timezone", "anchor")),
    "arguments": Unit(_("arguments"), ("args", "kwargs")),
    "overlap": Unit(_("overlap"), ("overlap",)),
    "catch_up": Unit(_("catch up"), ("catch_up",)),
    "jitter": Unit(_("jitter"), ("jitter",)),
    "dates": Unit(_("start and end"), ("start_at", "end_at")),
}
DURATIONS = ("every", "jitter")
TIMING_FIELDS = (*UNITS["when"].fields, *UNITS["dates"].fields)


def as_declared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return {unit: value} of a schedule's fields, as JSON."""
    return {name: as_json(values, unit.fields) for name, unit in UNITS.items()}


def as_json(values: Mapping[str, Any], fields: tuple[str, ...]) -> Any:
    if len(fields) == 1:
        return json_value(values[fields[0]])
    return {field: json_value(values[field]) for field in fields}


def json_value(value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return instant(value).isoformat()
        case Choices():
            return str(value)
    return value


def fields_of(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a schedule from what `as_declared` has made of them."""
    fields = {}
    for name, unit in UNITS.items():
        if len(unit.fields) == 1:
            fields[unit.fields[0]] = declared[name]
        else:
            fields |= declared[name]
    for name in DURATIONS:
        if fields[name] is not None:
            fields[name] = timedelta(seconds=fields[name])
    for name in UNITS["dates"].fields:
        if fields[name] is not None:
            fields[name] = datetime.fromisoformat(fields[name])
    return fields


def interval(duration: timedelta) -> str:
    """Return a duration in words, in the largest unit that divides it."""
    seconds = duration.total_seconds()
    for size, words in INTERVALS:
        if seconds % size == 0 and (seconds >= size):
            return words % {"count": int(seconds // size)}
    # The plural of 1.5 seconds is that of 2: gettext takes whole numbers only.
    words = ngettext("%(count)g second", "%(count)g seconds", ceil(seconds))
    return words % {"count": seconds}
