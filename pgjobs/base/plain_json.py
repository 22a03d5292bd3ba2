"""JSON that both PostgreSQL can store and Python can read back."""

import json
import math
import re
from decimal import Decimal
from typing import Any

from django.db.models import Model
from django.utils.datastructures import MultiValueDict
from django.utils.functional import Promise
from pydantic_core import to_json

from ..conf import settings

DEEPEST = 100
LONGEST_INTEGER_BITS = 14_000  # about 4,200 digits; Python reads no more than 4,300


encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode
dump_sorted = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode
# A text, or a number that jsonb would give back as an integer or without its sign.
TEXT_OR_FLOAT = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<float>-?\d+(?:\.\d+)?e\+\d+|-0\.0(?![\d]))'
)


def dump(value) -> str:
    """Return compact JSON text of a value, as jsonb keeps it."""
    return with_decimal_places(encode(value))


def dump_checked(value) -> str:
    """Return compact JSON text of a value that `check_json` has accepted.

    `dump` makes an encoder at each call, which takes five times as long.
    """
    return with_decimal_places(to_json(value).decode())


def with_decimal_places(text: str) -> str:
    """Return JSON with all digits of large floats, so that jsonb keeps them floats.

    PostgreSQL would write 1e22 as an integer, and has no -0.0.
    """
    if "e+" not in text and "-0.0" not in text:
        return text
    return TEXT_OR_FLOAT.sub(written_out, text)


def written_out(match: re.Match) -> str:
    number = match["float"]
    if number is None:
        return match[0]
    return "0.0" if number == "-0.0" else f"{Decimal(number):f}.0"


def load(text: str) -> Any:
    """Return the value of a JSON text as PostgreSQL writes it, with nothing around it.

    Raises ValueError or RecursionError if Python cannot read it.
    """
    return decode(text)[0]


decode = json.JSONDecoder().raw_decode


class UnreadableJson(str):
    """JSON text, unchanged, that PostgreSQL accepts and Python cannot read."""


class NotJson(ValueError):
    """The value, or a part of it, is of a type that JSON lacks."""

    def __init__(self, value: Any):
        name, self.cure = type(value).__name__, ""
        if isinstance(value, Model):
            self.cure = ": pass its primary key"
        elif isinstance(value, Promise):  # gettext_lazy, reverse_lazy
            name, self.cure = "a lazy text", ": pass str() of it"
        super().__init__(f"{name} is not JSON, got {shortened(value)}{self.cure}")


class HasTuple(NotJson):
    """The value, or a part of it, is a tuple, in place of which JSON has a list."""


def check_json(value, depth: int = 0) -> None:
    """Raise ValueError unless the value is JSON that PostgreSQL and Python can read."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int):
        check_integer(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not JSON")
    elif depth >= DEEPEST:
        raise ValueError(f"is nested more than {DEEPEST} deep (or holds itself)")
    elif isinstance(value, list):
        for each in value:
            check_json(each, depth + 1)
    elif isinstance(value, dict):
        check_object(value, depth)
    elif isinstance(value, tuple):
        raise HasTuple(value)
    else:
        raise NotJson(value)


def check_object(value: dict, depth: int) -> None:
    check_mapping(value)
    for key, each in value.items():
        if not isinstance(key, str):
            raise ValueError(f"keys must be strings, got {shortened(key)}")
        check_text(key)
        check_json(each, depth + 1)


def check_mapping(value) -> None:
    """Refuse a dict that shows one value of a name and holds others, as POST data."""
    if isinstance(value, MultiValueDict):
        raise ValueError(
            f"{type(value).__name__} is not JSON, got {shortened(value)}: pass its "
            "dict(), with one value for each name, or dict(it.lists())"
        )


def check_integer(value: int) -> None:
    if value.bit_length() > LONGEST_INTEGER_BITS:
        raise ValueError("an integer has too many digits")


def check_text(value: str) -> None:
    if "\0" in value:
        raise ValueError("contains NUL (U+0000), which PostgreSQL cannot store")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("contains a lone surrogate, which is no text") from None


def result_text(value) -> str | None:
    """Return a job's result as JSON text; raise ValueError if it cannot be stored."""
    if value is None:
        return None
    check_json(value)
    text = dump(value)
    size = len(text.encode())
    if size > settings.MAX_RESULT_BYTES:
        raise ValueError(
            f"is {size} bytes of JSON, more than the {settings.MAX_RESULT_BYTES} that "
            "PGJOBS['MAX_RESULT_BYTES'] allows"
        )
    return text


def shortened(value) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  (anything may hide in a __repr__)
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 100 else text[:97] + "..."
