"""The parameters of a task as a table, from the schema that the database stores."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext

from ..base.plain_json import dump
from ..reports.texts import excerpt
from .markup import LONGEST_CELL

MOST_PARAMETERS = 100
LONGEST_TYPE = 200
DEEPEST = 5  # types within types that are named


class Parameter(NamedTuple):
    name: str
    type: str
    default: str  # empty if a value has to be given
    description: str


def parameters_table(schema: Any) -> str:
    """Return the table, or a sentence if the task takes no arguments."""
    rows = list(parameters(schema))
    if not rows:
        return gettext("None.")
    titles = (
        gettext("Name"),
        gettext("Type"),
        gettext("Default"),
        gettext("Description"),
    )
    head = format_html_join("", '<th scope="col">{}</th>', ((each,) for each in titles))
    cells = '<tr><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>'
    return format_html(
        '<div class="pgjobs-scroll" tabindex="0" role="region" aria-label="{}">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        gettext("parameters"),
        *(head, format_html_join("", cells, rows)),
    )


def parameters(schema: Any) -> Iterator[Parameter]:
    """Yield the parameters; SQL may have stored anything, which yields none."""
    known = part_of(schema, "properties", dict)
    for name in part_of(schema, "x-order", list)[:MOST_PARAMETERS]:
        each = known.get(str(name))
        if isinstance(each, dict):
            default = dump(each["default"]) if "default" in each else ""
            yield Parameter(
                excerpt(str(name), LONGEST_CELL),
                excerpt(type_of(each), LONGEST_TYPE),
                excerpt(default, LONGEST_CELL),
                excerpt(str(each.get("description", "")), LONGEST_TYPE),
            )


def part_of(schema: Any, name: str, kind: type) -> Any:
    found = schema.get(name) if isinstance(schema, dict) else None
    return found if isinstance(found, kind) else kind()


def type_of(schema: Any, depth: int = 0) -> str:
    """Return in words what a schema takes."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return gettext("anything")
    if choices := part_of(schema, "enum", list):
        return " | ".join(dump(each) for each in choices[:MOST_PARAMETERS])
    if others := part_of(schema, "anyOf", list):
        return " | ".join(type_of(each, depth + 1) for each in others)
    names = schema.get("type", gettext("anything"))
    name = " | ".join(map(str, names)) if isinstance(names, list) else str(names)
    if "items" in schema:
        return f"{name} ({type_of(schema['items'], depth + 1)})"
    return str(schema["format"]) if "format" in schema else name
