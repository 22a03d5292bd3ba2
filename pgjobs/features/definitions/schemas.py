"""Type hints as JSON Schema, by which SQL checks arguments and the admin makes forms.

Where a schema can say all that the hint says, PostgreSQL checks values as strictly as
`hints.py` does, and stores them in the same form. That includes, field by field,
dataclasses, pydantic models and TypedDicts. Where it cannot, as for validators of the
project, the schema has `"x-checked-by": "worker"`. Then SQL checks the JSON type only,
and a job with a wrong argument fails when it runs.
"""

import dataclasses
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import annotated_types
from pydantic import AfterValidator, BaseModel, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import is_typeddict

from ...tasks.hints import Hint, described

if TYPE_CHECKING:
    from ...tasks.arguments import ArgumentOf, Signature

# Settings of a model that do not change which JSON it takes.
HARMLESS = frozenset({"extra", "frozen", "title", "json_schema_extra"})
# Validators that may accept what the hint does not.
EARLY = ("before", "wrap", "plain")
MISSING = object()
Schema = dict[str, Any]

BY_WORKER = {"x-checked-by": "worker"}
SIMPLE: dict[Any, Schema] = {
    Any: {},
    object: BY_WORKER,
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    time: {"type": "string", "format": "time"},
    Decimal: {"type": ["number", "string"], "format": "decimal"},
    UUID: {"type": "string", "format": "uuid"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
}
# The JSON type of hints that have no other schema here.
JSON_TYPES = {timedelta: ["string"], bytes: ["string"]}
KEYWORDS = {
    annotated_types.Ge: ("ge", {"number": "minimum"}),
    annotated_types.Gt: ("gt", {"number": "exclusiveMinimum"}),
    annotated_types.Le: ("le", {"number": "maximum"}),
    annotated_types.Lt: ("lt", {"number": "exclusiveMaximum"}),
    annotated_types.MinLen: (
        "min_length",
        {"string": "minLength", "array": "minItems"},
    ),
    annotated_types.MaxLen: (
        "max_length",
        {"string": "maxLength", "array": "maxItems"},
    ),
}
TAKES_NO_OTHER = vars(Enum)["_missing_"].__func__
SCALARS = (str, int, float, bool, types.NoneType)
HELP_OF_PARAMETER = re.compile(
    r"^[ \t]*:param\s+(?:[^:]*\s)?(?P<name>\w+):"
    r"(?P<help>.*(?:\n(?![ \t]*:|[ \t]*$).*)*)",  # up to the next, or a blank line
    re.MULTILINE,
)


class Field(NamedTuple):
    name: str  # in JSON
    hint: Any
    is_required: bool
    default: Any = MISSING


class ObjectHint(NamedTuple):
    """The fields of a class, and whether others are ignored, forbidden or allowed."""

    fields: list[Field]
    extra: str = "forbid"  # unless the class itself says otherwise


def object_hint(hint: Any) -> ObjectHint | None:
    """Return the fields of a class, or None if only Python can check its JSON."""
    if not isinstance(hint, type) or "__get_pydantic_core_schema__" in own_names(hint):
        return None
    try:
        if issubclass(hint, BaseModel):
            return of_model(hint)
        if dataclasses.is_dataclass(hint):
            return of_dataclass(hint)
        if is_typeddict(hint):
            return of_typed_dict(hint)
    except Exception:  # noqa: BLE001  (a hint is an expression: it may raise anything)
        return None
    return None


def own_names(hint: type) -> set[str]:
    """Return the names that the class and those of the project above it define."""
    above = hint.__mro__ if hasattr(hint, "__mro__") else ()
    return {
        name
        for each in above
        if not each.__module__.startswith("pydantic")
        for name in vars(each)
    }


def of_model(model: type[BaseModel]) -> ObjectHint | None:
    found = model.__pydantic_decorators__
    if (
        issubclass(model, RootModel)
        or not model.model_config.keys() <= HARMLESS
        or any(each.info.mode in EARLY for each in found.model_validators.values())
        or found.root_validators
        or found.validators
    ):
        return None
    opaque = {
        name
        for each in found.field_validators.values()
        if each.info.mode in EARLY
        for name in each.info.fields
    }
    fields = [
        field_of_model(name, info, name in opaque or "*" in opaque)
        for name, info in model.model_fields.items()
    ]
    if None in fields:
        return None
    return ObjectHint(
        [field for field in fields if field],
        model.model_config.get("extra") or "forbid",
    )


def field_of_model(name: str, info: FieldInfo, is_opaque: bool) -> Field | None:
    alias = info.validation_alias or name
    is_renamed = alias != (info.serialization_alias or name)
    if not isinstance(alias, str) or is_renamed or info.exclude:
        return None
    hint: Any = info.annotation
    if info.metadata:
        hint = Annotated[hint, *info.metadata]
    default = info.default if info.default is not PydanticUndefined else MISSING
    return Field(alias, object if is_opaque else hint, info.is_required(), default)


def of_dataclass(hint: type) -> ObjectHint | None:
    if hasattr(hint, "__pydantic_config__") or hasattr(hint, "__pydantic_decorators__"):
        return None
    hints = get_type_hints(hint, include_extras=True)
    if any(isinstance(each, dataclasses.InitVar) for each in hints.values()):
        return None
    fields = []
    for field in dataclasses.fields(hint):
        if not field.init or isinstance(field.default, FieldInfo):
            return None
        has_default = field.default is not dataclasses.MISSING
        has_factory = field.default_factory is not dataclasses.MISSING
        default = field.default if has_default else MISSING
        is_required = not has_default and not has_factory
        fields.append(Field(field.name, hints[field.name], is_required, default))
    return ObjectHint(fields)


def of_typed_dict(hint: Any) -> ObjectHint | None:
    if hasattr(hint, "__pydantic_config__"):
        return None
    hints = get_type_hints(hint, include_extras=True)
    return ObjectHint(
        [
            Field(name, bare(each), name in hint.__required_keys__)
            for name, each in hints.items()
        ]
    )


def bare(hint: Any) -> Any:
    while get_origin(hint) in (Required, NotRequired):
        (hint,) = get_args(hint)
    return hint


def parameters_of(signature: "Signature", docstring: str | None) -> Schema:
    """Return the JSON Schema of a task's arguments, as they are stored by name."""
    helps = helps_of(docstring)
    named = [
        parameter
        for parameter in signature.parameters.values()
        if not parameter.is_variable
    ]
    rest = signature.var_keyword
    schema = {
        "type": "object",
        "properties": {
            each.name: property_of(each, helps.get(each.name)) for each in named
        },
        "required": [each.name for each in named if each.is_required],
        "additionalProperties": (
            schema_of(signature.parameters[rest].hint) if rest else False
        ),
        # PostgreSQL does not keep the order of the keys.
        "x-order": [each.name for each in named],
    }
    definitions = dict(taken_out("$defs", schema))
    return schema | ({"$defs": definitions} if definitions else {})


def taken_out(keyword: str, schema: Any) -> Iterator[tuple[str, Schema]]:
    """Remove a keyword such as "$defs" from all nested schemas; yield its values."""
    inner = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and keyword in schema:
        yield from schema.pop(keyword).items()
    for each in list(inner):
        if isinstance(each, dict | list):
            yield from taken_out(keyword, each)


def property_of(parameter: "ArgumentOf", help_text: str | None) -> Schema:
    schema = dict(schema_of(parameter.hint))
    if help_text:
        schema["description"] = help_text
    if not parameter.is_required:
        schema["default"] = parameter.hint.store(parameter.default)
    return schema


def helps_of(docstring: str | None) -> dict[str, str]:
    """Return a docstring's help of parameters: `:param client_id: Whose report.`"""
    return {
        match["name"]: " ".join(match["help"].split())
        for match in HELP_OF_PARAMETER.finditer(docstring or "")
    }


def summary_of(docstring: str | None) -> str:
    """Return the docstring without its fields about parameters and the result."""
    return re.split(r"^[ \t]*:\w", docstring or "", maxsplit=1, flags=re.M)[0].strip()


def schema_of(hint: Any) -> Schema:
    """Return the schema of a parameter's hint, as `ArgumentOf` has it."""
    return schema_of_type(hint.hint) if isinstance(hint, Hint) else {}


def schema_of_type(hint: Any) -> Schema:
    try:
        if hint in SIMPLE:
            return dict(SIMPLE[hint])
    except TypeError:  # it cannot be hashed, as what stands in some Annotated
        pass
    if hasattr(hint, "__supertype__"):  # a NewType
        return schema_of_type(hint.__supertype__)
    make = GENERIC.get(get_origin(hint))
    if make is not None:
        schema = make(hint, get_args(hint))
    elif is_plain_enum(hint):
        schema = choices_of_enum(hint)
    else:
        schema = object_of(hint)
    return by_worker(hint) if schema is None else schema


def by_worker(hint: Any) -> Schema:
    """Return a schema whose JSON type SQL checks. The rest of it is for people."""
    kind = get_origin(hint) or hint
    schema = described(hint) | BY_WORKER
    if kind in JSON_TYPES:
        schema["x-types"] = JSON_TYPES[kind]
    elif (
        dataclasses.is_dataclass(kind)
        or is_typeddict(kind)
        or (isinstance(kind, type) and issubclass(kind, BaseModel))
    ):
        schema["x-types"] = ["object"]
    return schema


def object_of(hint: Any) -> Schema | None:
    """Return the schema of a class with fields, or None if SQL cannot check by it.

    Where a class contains itself, SQL checks the JSON type only.
    """
    if hint in described_now or (found := object_hint(hint)) is None:
        return None
    described_now.append(hint)
    try:
        properties = {field.name: schema_of_field(field) for field in found.fields}
    finally:
        described_now.remove(hint)
    schema: Schema = {
        "type": "object",
        "title": hint.__name__,
        "properties": properties,
        "required": [field.name for field in found.fields if field.is_required],
    }
    if found.extra == "ignore":
        return schema | {"x-others": "dropped"}
    return schema | {"additionalProperties": found.extra == "allow"}


# The classes whose fields are being described, from the outermost to the innermost.
described_now: list[Any] = []


def schema_of_field(field: Field) -> Schema:
    schema = schema_of_type(field.hint)
    if field.default is MISSING:
        return schema
    try:
        return schema | {"default": Hint(field.hint).store(field.default)}
    except ValueError:  # its default is no JSON; the class fills it in itself
        return schema


# Generic hints. Each function returns a schema, or None if SQL cannot check by it.


def literal(hint: Any, choices: tuple) -> Schema | None:
    if choices == (None,):
        return {"type": "null"}
    return enumeration(
        choice.value if isinstance(choice, Enum) else choice for choice in choices
    )


def enumeration(values: Iterable[Any]) -> Schema | None:
    values = list(values)
    plain = all(type(value) in SCALARS for value in values)
    return {"enum": values} if plain else None


def is_plain_enum(hint: Any) -> bool:
    """Whether an Enum accepts only its values."""
    return (
        isinstance(hint, type)
        and issubclass(hint, Enum)
        and not issubclass(hint, Flag)
        and getattr(hint._missing_, "__func__", None) is TAKES_NO_OTHER
        and not hasattr(hint, "__get_pydantic_core_schema__")
    )


def choices_of_enum(hint: type[Enum]) -> Schema | None:
    return enumeration(each.value for each in hint)


def array(hint: Any, arguments: tuple) -> Schema:
    items = schema_of_type(arguments[0]) if arguments else {}
    return {"type": "array", "items": items}


def set_of(hint: Any, arguments: tuple) -> Schema | None:
    return {**array(hint, arguments), "uniqueItems": True}


def tuple_of(hint: Any, arguments: tuple) -> Schema | None:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return array(hint, arguments)
    return {
        "type": "array",
        "prefixItems": [schema_of_type(argument) for argument in arguments],
        "minItems": len(arguments),
        "maxItems": len(arguments),
    }


def mapping(hint: Any, arguments: tuple) -> Schema | None:
    if arguments[0] is not str:
        return None
    values = schema_of_type(arguments[1])
    return {"type": "object", "additionalProperties": values}


def union(hint: Any, members: tuple) -> Schema | None:
    schemas: list[Schema] = []
    for each in map(schema_of_type, members):
        if each not in schemas:
            schemas.append(each)
    if not can_be_told_apart(schemas):
        return None
    # The first schema that accepts a value decides its form: 5 stays int in int |
    # float.
    return {"anyOf": sorted(schemas, key=lambda each: each.get("type") == "number")}


def can_be_told_apart(schemas: list[Schema]) -> bool:
    """Whether the JSON type of a value shows to which member it belongs."""
    kinds: list[str] = []
    texts = 0
    for schema in schemas:
        if "enum" in schema:
            if not all(isinstance(each, str | None) for each in schema["enum"]):
                return False
            texts += 1
        elif schema.get("type") == "string" and "format" not in schema:
            texts += 1
        elif schema.get("format") == "decimal":
            kinds += ["integer", "number", "string"]
        elif "type" in schema and "x-checked-by" not in schema:
            kinds.append(schema["type"])
        else:
            return False
    return len(kinds) == len(set(kinds)) and not (texts and "string" in kinds)


def annotated(hint: Any, arguments: tuple) -> Schema | None:
    schema = schema_of_type(arguments[0])
    kind = "number" if schema.get("type") == "integer" else schema.get("type")
    for constraint in constraints(arguments[1:]):
        attribute, keywords = KEYWORDS.get(type(constraint), ("", {}))
        # A set may have fewer items than its JSON.
        if {"format", "uniqueItems"} & schema.keys() or kind not in keywords:
            return None
        limit = getattr(constraint, attribute)
        if type(limit) not in (int, float):
            return None
        schema[keywords[kind]] = limit
    return schema


def constraints(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield constraints one by one, and other metadata of Annotated unchanged."""
    for each in metadata:
        if isinstance(each, annotated_types.GroupedMetadata):
            yield from constraints(each)
        elif isinstance(found := getattr(each, "metadata", None), list):
            yield from constraints(found)  # pydantic's Field(...)
        # A text is a note for people. A function that runs afterwards accepts no more.
        elif not isinstance(each, str | AfterValidator):
            yield each


GENERIC: Mapping[Any, Callable[[Any, tuple], Schema | None]] = {
    Literal: literal,
    Annotated: annotated,
    Union: union,
    types.UnionType: union,
    list: array,
    tuple: tuple_of,
    set: set_of,
    frozenset: set_of,
    dict: mapping,
}
