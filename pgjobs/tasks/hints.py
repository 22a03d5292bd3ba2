"""Type hints: which values fit, how they are kept as JSON, and how they come back.

Results, too: what a task may return beside plain JSON.
"""

import inspect
import sys
from collections.abc import Callable
from inspect import Parameter, unwrap
from itertools import islice
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ..base.plain_json import (
    NotJson,
    check_integer,
    check_json,
    check_mapping,
    check_text,
    dump,
    shortened,
)
from ..exceptions import InvalidTask
from .arrival import comparable, dropped, in_key_form, in_order, kinds_of

# NaN must stay NaN, so that it is refused.
ANYTHING: TypeAdapter[Any] = TypeAdapter(Any, config={"ser_json_inf_nan": "constants"})
PLAIN_TYPES = (int, str, bool, float)
# What raises ValueError for values of a type that JSON cannot keep; the others are kept
# as they are. A float has to be converted first.
CHECKS: dict[Any, Callable[[Any], None]] = {
    int: check_integer,
    str: check_text,
    bool: check_json,
}
NEEDS_HINT = (
    ": give the parameter a type hint if that is a date, a UUID, a Decimal, an Enum, a "
    "dataclass or a pydantic model"
)
MOST_FAULTS = 5  # reported for one value, because a list may have any number
# How to read a signature whose hints may name undefined classes.
UNRESOLVED: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    from annotationlib import Format

    UNRESOLVED = {"annotation_format": Format.FORWARDREF}


class AnyJson:
    """No hint, or `Any`: takes any JSON and leaves it unchanged."""

    has_several_forms = False

    def store(self, value) -> Any:
        """Return the value; raise ValueError if it is not JSON."""
        try:
            check_json(value)
        except NotJson as error:
            raise ValueError(f"{error}{'' if error.cure else NEEDS_HINT}") from None
        return value

    def load(self, data) -> Any:
        return data

    def key_form(self, data) -> Any:
        return data


def check_taken(given, converted) -> None:
    """Raise ValueError for parts of a value that its hint has no place for."""
    faults = list(islice(dropped(given, converted), MOST_FAULTS))
    if faults:
        raise ValueError("; ".join(faults))


class Hint:
    """A type hint. Raises ValueError if no JSON can keep its values."""

    def __init__(self, hint):
        self.hint = hint
        self.plain_type = hint if hint in PLAIN_TYPES else None
        self.check = CHECKS.get(self.plain_type)
        self.adapter = adapter_of(hint)
        self.kinds = kinds_of(self.adapter.core_schema)
        self.has_several_forms = self.kinds.has_several_forms

    def store(self, value) -> Any:
        """Return the value as JSON data; raise ValueError where it does not fit."""
        if self.check and type(value) is self.plain_type:
            self.check(value)
            return value
        try:
            converted = self.convert(value)
        except ValidationError as error:
            raise ValueError(faults_of(error)) from None
        data = self.dump(converted)
        check_json(data)
        if self.kinds.has_sets:
            data = in_order(converted, data)
        self.check_arrival(converted, data)
        return data

    def convert(self, value) -> Any:
        """Return the value as the hint wants it, from the value or its JSON form."""
        check_mapping(value)
        try:
            converted = self.adapter.validate_python(value, strict=True)
            may_drop = self.kinds.takes_dicts
        except ValidationError:
            check_json(value)  # only plain JSON may pass in its JSON form
            converted = self.adapter.validate_json(dump(value), strict=True)
            may_drop = True
        if may_drop and not self.kinds.may_drop:
            check_taken(value, converted)
        return converted

    def dump(self, converted) -> Any:
        try:
            return self.adapter.dump_python(
                converted, mode="json", by_alias=True, round_trip=True, warnings=False
            )
        except Exception as error:  # keys that no JSON has; a serializer may raise any
            raise ValueError(str(error)) from error

    def check_arrival(self, value, data) -> None:
        """Raise ValueError unless the task would get this very value.

        JSON does not keep a tuple without a hint, a date where the hint also allows
        `str`, or the zone of a time whose offset depends on the day.
        """
        arriving = self.load(data)
        if arriving == value and not self.kinds.hides_losses:
            return
        if comparable(arriving) != comparable(value):
            raise ValueError(
                f"would arrive as {shortened(arriving)}, got {shortened(value)}"
            )

    def key_form(self, data) -> Any:
        """Return stored data in the form that equal values share, for keys."""
        if not self.has_several_forms:
            return data
        try:
            value = self.load(data)
            # Dumped again, because its sets need not have the order of the data.
            return in_key_form(value, self.dump(value))
        except ValueError:  # a row that an older version of the code has made
            return data

    def load(self, data) -> Any:
        """Return the value for the task; raise ValueError if the data does not fit."""
        if type(data) is self.plain_type:
            return data
        try:
            return self.adapter.validate_json(dump(data), strict=True)
        except ValidationError as error:
            raise ValueError(faults_of(error)) from None
        except Exception as error:
            # A validator of the project may raise anything.
            raise ValueError(f"{type(error).__name__}: {error}") from error


def json_data(value: Any) -> Any:
    """Return a value without a hint as JSON data; raise ValueError if it has none.

    Dates, UUIDs, Decimals, Enums, tuples and models get their JSON form.
    """
    try:
        check_json(value)
        return value
    except ValueError:
        data = dumped(value)
    check_json(data)
    return data


def dumped(value: Any) -> Any:
    try:
        return ANYTHING.dump_python(value, mode="json", by_alias=True, round_trip=True)
    except Exception as error:  # a serializer of the project may raise anything
        raise ValueError(str(error)) from error


def adapter_of(hint) -> TypeAdapter:
    try:
        adapter = TypeAdapter(hint)
        # Otherwise the first value would raise its errors.
        adapter.rebuild(raise_errors=True)
    except Exception as error:
        raise ValueError(str(error).splitlines()[0].split(". ")[0]) from error
    return adapter


def described(hint) -> dict[str, Any]:
    """Return pydantic's JSON Schema of a hint, or {} if it has none."""
    try:
        return TypeAdapter(hint).json_schema()
    except Exception:  # noqa: BLE001  (of a project's own type anything may come)
        return {}


def signature_of(task_name: str, function: Callable) -> inspect.Signature:
    """Return the signature with its hints resolved, except that of the result.

    Raises InvalidTask.
    """
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        signature = inspect.signature(function, **UNRESOLVED)
        parameters = [
            parameter.replace(annotation=resolved(parameter.annotation, namespace))
            for parameter in signature.parameters.values()
        ]
    except Exception as error:  # a hint is an expression: it may raise anything
        raise InvalidTask(
            f"{task_name}: a type hint cannot be resolved: {error}."
        ) from error
    return signature.replace(parameters=parameters)


def resolved(hint, namespace: dict) -> Any:
    """Return the hint with the names in it looked up, as in `list["Client"]`.

    A list or tuple in place of a hint becomes a choice.
    """
    if isinstance(hint, str):
        hint = eval(hint, namespace)
    if isinstance(hint, list | tuple):
        if not hint:
            raise ValueError("a choice of nothing")
        return Literal[tuple(hint)]
    if hint is inspect.Parameter.empty:
        return Any

    def bearer(): ...

    bearer.__annotations__ = {"hint": hint}
    return get_type_hints(bearer, namespace, include_extras=True)["hint"]


def faults_of(error: ValidationError) -> str:
    """Return pydantic's complaints in one line."""
    complaints = error.errors(include_url=False)
    faults = [fault_of(complaint) for complaint in complaints[:MOST_FAULTS]]
    if len(complaints) > MOST_FAULTS:
        faults.append(f"and {len(complaints) - MOST_FAULTS} more")
    return "; ".join(faults)


def fault_of(complaint) -> str:
    where = "".join(f"[{part!r}]" for part in complaint["loc"])
    message = complaint["msg"]
    if message[1:2].islower():  # the first word is no acronym
        message = message[0].lower() + message[1:]
    return f"{where} {message}, got {shortened(complaint['input'])}".lstrip()


def with_lists(function: Callable, value: Any) -> Any:
    """Return a result with lists in place of its tuples, as JSON writes them.

    Raises ValueError if the function says that it returns something else.
    """
    if not may_return(function, value):
        hint = function.__annotations__["return"]
        raise ValueError(
            "it has a tuple, which does not fit the return hint "
            f"{getattr(hint, '__name__', hint)}: return a list, or correct the hint"
        )
    return listed(value)


def listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: listed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [listed(each) for each in value]
    return value


def may_return(function: Callable, value: Any) -> bool:
    """Whether the function's return hint allows the value, as far as it can be told."""
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    if annotation in (Any, Parameter.empty):
        return True
    try:
        hint = resolved(annotation, getattr(unwrap(function), "__globals__", {}))
        adapter = adapter_of(hint)
    except Exception:  # noqa: BLE001  (a hint is an expression: it may raise anything)
        return True
    try:
        adapter.validate_python(value, strict=True)
    except Exception:  # noqa: BLE001  (a validator of the project may raise anything)
        return False
    return True
