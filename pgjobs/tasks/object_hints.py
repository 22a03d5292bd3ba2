"""Dataclasses, pydantic models and TypedDicts as JSON Schema, field by field."""

import dataclasses
from typing import (
    Annotated,
    Any,
    NamedTuple,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import is_typeddict

# Settings of a model that do not change which JSON it takes.
HARMLESS = frozenset({"extra", "frozen", "title", "json_schema_extra"})
# Validators that may accept what the hint does not.
EARLY = ("before", "wrap", "plain")
MISSING = object()


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
        [each for each in fields if each], model.model_config.get("extra") or "forbid"
    )


def field_of_model(name: str, info: FieldInfo, is_opaque: bool) -> Field | None:
    alias = info.validation_alias or name
    is_renamed = alias != (info.serialization_alias or name)
    if not isinstance(alias, str) or is_renamed or info.exclude:
        return None
    hint = (
        Annotated[info.annotation, *info.metadata]
        if info.metadata
        else (info.annotation)
    )
    default = info.default if info.default is not PydanticUndefined else MISSING
    return Field(alias, object if is_opaque else hint, info.is_required(), default)


def of_dataclass(hint: type) -> ObjectHint | None:
    if hasattr(hint, "__pydantic_config__") or hasattr(hint, "__pydantic_decorators__"):
        return None
    hints = get_type_hints(hint, include_extras=True)
    if any(isinstance(each, dataclasses.InitVar) for each in hints.values()):
        return None
    fields = []
    for each in dataclasses.fields(hint):
        if not each.init or isinstance(each.default, FieldInfo):
            return None
        has_default = each.default is not dataclasses.MISSING
        has_factory = each.default_factory is not dataclasses.MISSING
        default = each.default if has_default else MISSING
        is_required = not has_default and not has_factory
        fields.append(Field(each.name, hints[each.name], is_required, default))
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
