"""What a type keeps of a value: parts that would be lost, and the order of sets.

Python's `==` does not tell. A time that a zone shows twice, or never, equals no time of
another zone, and a time of day equals the same without its zone.
"""

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel

from ..base.plain_json import dump_sorted, shortened

SETS = frozenset({"set", "frozenset"})
# Validators that see a value before its hint does.
EARLY = frozenset({"function-before", "function-wrap", "function-plain"})
# Kinds of hints whose values `==` calls equal although a task sees a difference.
# Functions may make any of them.
HIDING = EARLY | {"datetime", "time", "deque", "ordered-dict"}
# What in such a description is none of a hint.
BESIDE = frozenset({"metadata", "serialization", "default"})
IGNORING = "extra_fields_behavior"
# Kinds of hints of which equal values may have several JSON forms.
OF_SEVERAL_FORMS = frozenset({"datetime", "decimal"})
# Below and above, a Decimal's digits are not written out.
MOST_PLACES = 50


class Kinds(NamedTuple):
    """What a hint may hold, as far as it matters how its values arrive."""

    has_sets: bool
    takes_dicts: bool  # for objects, as they are
    may_drop: bool
    hides_losses: bool
    has_several_forms: bool


def kinds_of(core_schema: Any) -> Kinds:
    schemas = list(schemas_in(core_schema))
    kinds = frozenset(schema["type"] for schema in schemas)
    return Kinds(
        has_sets=bool(kinds & SETS),
        takes_dicts=bool(kinds & {"typed-dict", "model"}),
        may_drop=any(map(is_free, schemas)),
        hides_losses=bool(kinds & HIDING),
        has_several_forms=bool(kinds & OF_SEVERAL_FORMS),
    )


def schemas_in(core_schema: Any) -> Iterator[dict]:
    """Yield pydantic's description of a hint, and of all hints inside of it."""
    if isinstance(core_schema, dict):
        if isinstance(core_schema.get("type"), str):
            yield core_schema
        parts = [each for key, each in core_schema.items() if key not in BESIDE]
    elif isinstance(core_schema, list | tuple):
        parts = list(core_schema)
    else:
        return
    for each in parts:
        yield from schemas_in(each)


def is_free(schema: dict) -> bool:
    """Whether the project itself decides which parts of a value it takes.

    It does by a validator that runs early, or by a TypedDict that ignores others.
    """
    if schema["type"] == "typed-dict":
        return (schema.get("config") or {}).get(IGNORING) == "ignore"
    if schema["type"] not in EARLY:
        return False
    function = schema.get("function")
    function = function.get("function") if isinstance(function, dict) else function
    return not getattr(function, "__module__", "").startswith("pydantic")


# Comparing


def comparable(value: Any) -> Any:
    """Return what is equal for two values if, and only if, a task sees no difference.

    Fields of a dataclass that its own `==` leaves out do not count.
    """
    if isinstance(value, datetime | time):
        # By offset: no time that a zone shows twice equals one of another zone.
        has_zone = value.tzinfo is not None
        return value.replace(tzinfo=None), has_zone, value.utcoffset()
    if isinstance(value, Enum):
        return value
    if isinstance(value, list | tuple | deque):
        return type(value), limit_of(value), tuple(map(comparable, value))
    if isinstance(value, set | frozenset):
        return type(value), frozenset(map(comparable, value))
    if isinstance(value, dict):
        check_order(value)
        return {comparable(key): comparable(each) for key, each in value.items()}
    if isinstance(value, BaseModel):
        private, extra = value.__pydantic_private__, value.__pydantic_extra__
        return type(value), *map(comparable, (vars(value), private, extra))
    if dataclasses.is_dataclass(value):
        compared = (f.name for f in dataclasses.fields(value) if f.compare)
        return type(value), *(comparable(getattr(value, name)) for name in compared)
    return value


def limit_of(value: Any) -> int | None:
    return value.maxlen if isinstance(value, deque) else None


def check_order(value: dict) -> None:
    """Refuse an OrderedDict unless jsonb keeps its keys in the order that they have."""
    if not isinstance(value, OrderedDict):
        return
    keys = [str(key).encode() for key in value]
    if keys != sorted(keys, key=lambda each: (len(each), each)):
        raise ValueError("would arrive in another order: pass a list of pairs")


# What a class does not take


def dropped(given: Any, converted: Any, where: str = "") -> Iterator[str]:
    """Yield complaints about parts of JSON that the converted value does not have."""
    if isinstance(converted, RootModel):
        converted = converted.root
    if isinstance(given, dict):
        parts = parts_by_key(given, converted)
        if parts is None:
            yield f"{where} several keys would become one".lstrip()
            return
        for key, each in given.items():
            inside = f"{where}[{key!r}]"
            if key in parts:
                yield from dropped(each, parts[key], inside)
            else:
                got = shortened(each)
                yield f"{inside} extra inputs are not permitted, got {got}"
    elif isinstance(given, list | tuple) and isinstance(converted, list | tuple):
        for index, (each, part) in enumerate(zip(given, converted, strict=False)):
            yield from dropped(each, part, f"{where}[{index}]")
    elif isinstance(given, list) and isinstance(converted, set | frozenset):
        for index, each in enumerate(given):
            inside = f"{where}[{index}]"
            faults = [list(dropped(each, part, inside)) for part in converted]
            if all(faults):  # in a set, any may be the one
                yield from faults[0]


def parts_by_key(given: dict, converted: Any) -> dict | None:
    """Return what has become of the members that were taken, or None for a clash."""
    if isinstance(converted, dict):
        if len(converted) >= len(given):
            return dict(zip(given, in_order_of(given, converted), strict=False))
        taken = {key: converted[key] for key in given if key in converted}
        return taken if len(taken) == len(converted) else None
    is_object = isinstance(converted, BaseModel) or dataclasses.is_dataclass(converted)
    if not is_object or says_what_of_others(converted):
        return dict.fromkeys(given)
    names = names_in_json(type(converted))
    return {key: getattr(converted, names[key], None) for key in given if key in names}


def in_order_of(given: dict, converted: dict) -> list:
    """Return the values of a dict in the order of another one with its keys."""
    if given.keys() <= converted.keys():
        return [converted[key] for key in given]
    return list(converted.values())


def says_what_of_others(value: Any) -> bool:
    """Whether its class says what becomes of members that it does not name."""
    of_model, of_dataclass = "model_config", "__pydantic_config__"
    name = of_model if isinstance(value, BaseModel) else of_dataclass
    config = getattr(type(value), name, None) or {}
    return config.get("extra") is not None


def names_in_json(kind: type) -> dict[str, str]:
    """Return the fields of a class by every name that JSON may give them."""
    fields = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        return {each.name: each.name for each in dataclasses.fields(kind)}
    names = {}
    for name, field in fields.items():
        names[name] = name
        alias = field.validation_alias
        for each in getattr(alias, "choices", [alias]):
            first = each if isinstance(each, str) else next(iter(path_of(each)), None)
            if isinstance(first, str):
                names[first] = name
    return names


def path_of(alias: Any) -> list:
    return getattr(alias, "path", [])


# One JSON form


def in_order(value: Any, data: Any) -> Any:
    """Return the JSON data of a value with the items of its sets in one order.

    A set of texts has another order in each process.
    """
    return reshaped(value, data, unchanged)


def in_key_form(value: Any, data: Any) -> Any:
    """Return the JSON data of a value in the form in which equal values are the same.

    Moments are in UTC, and Decimals without needless zeros.
    """
    return reshaped(value, data, key_form)


Leaf = Callable[[Any, Any], Any]


def reshaped(value: Any, data: Any, leaf: Leaf) -> Any:
    if isinstance(data, dict):
        parts = parts_of(value)
        if len(parts) != len(data):
            return data
        return {
            leaf(key, name): reshaped(part, each, leaf)
            for (key, part), (name, each) in zip(parts, data.items(), strict=True)
        }
    if isinstance(value, RootModel):
        return reshaped(value.root, data, leaf)
    is_set = isinstance(value, set | frozenset)
    is_array = is_set or isinstance(value, list | tuple | deque)
    if not (is_array and isinstance(data, list) and len(data) == len(value)):
        return leaf(value, data)
    items = [reshaped(*each, leaf) for each in zip(value, data, strict=True)]
    return sorted(items, key=dump_sorted) if is_set else items


def parts_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the members of an object, as they follow one another in its JSON."""
    if isinstance(value, RootModel):
        return parts_of(value.root)
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, BaseModel):
        known = type(value).model_fields
        fields = [each for each in vars(value).items() if each[0] in known]
        return [*fields, *(value.__pydantic_extra__ or {}).items()]
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return [(name, getattr(value, name)) for name in names]
    return []


def unchanged(value: Any, data: Any) -> Any:
    return data


def key_form(value: Any, data: Any) -> Any:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        try:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        except OverflowError:  # in UTC it is in the year 0 or 10000
            return data
    if isinstance(value, Decimal) and isinstance(data, str):
        return plain_decimal(value)
    return data


def plain_decimal(value: Decimal) -> str:
    """Return the text that all equal Decimals have, as `pgjobs_plain_decimal` does."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return "0"
    places = int(exponent) + len(text) - len(significant)
    mark = "-" * sign
    if not -MOST_PLACES <= places <= MOST_PLACES:
        return f"{mark}{significant}E{places}"
    if places >= 0:
        return mark + significant + "0" * places
    padded = significant.rjust(1 - places, "0")
    return f"{mark}{padded[:places]}.{padded[places:]}"
