"""JSON as Django's tasks have it: normalised, with texts as the keys of objects."""

import json
from typing import Any

from ..base.plain_json import shortened
from .compat import normalize_json

PLAIN = {str, int, float, bool, type(None)}


def json_form(value: Any) -> Any:
    """Return a value as Django normalises it, and as JSON then writes its keys.

    Raises TypeError, and ValueError for a dict whose keys have the same text.
    """
    if type(value) in PLAIN:
        return value
    return with_text_keys(normalize_json(value))


def with_text_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [with_text_keys(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {text_of(key): with_text_keys(each) for key, each in value.items()}
    if len(found) < len(value):
        raise ValueError(f"several keys would become one, got {shortened(value)}")
    return found


def text_of(key: Any) -> str:
    """Return a key as JSON writes it: 2024 as "2024", None as "null"."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return json.dumps(key, allow_nan=False)
    raise TypeError(f"Unsupported type of a key: {type(key)}")
