"""System checks of the keys, and of tasks that need them.

What is missing is a warning: an error would stop `migrate`, and a deploy that brings
the keys. A callable is not called here: it may ask another service.
"""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register

from ...conf import problems, settings
from ...tasks.registry import registry
from .keyring import (
    HOW,
    NO_HASH_KEY,
    NO_KEY,
    NO_PACKAGE,
    decoded,
    has_package,
    keys_of,
    secret_of,
)

CONSEQUENCE = (
    "Enqueueing {task} raises EncryptionError, and workers of such a process put its "
    "jobs back."
)


@register("pgjobs")
def check_encryption(**kwargs) -> list[CheckMessage]:
    """Report keys that cannot be used, and those that tasks lack."""
    return [] if any(problems()) else [*check_keys(), *check_tasks()]


def check_keys() -> Iterator[CheckMessage]:
    for name, check in (("ENCRYPTION_KEYS", check_list), ("HASH_KEY", check_hash_key)):
        try:
            check(getattr(settings, name))
        except ValueError as error:
            message = f"PGJOBS[{name!r}]: {error}"
            yield Error(message, hint=f"{HOW}.", id="pgjobs.E080")


def check_list(given: Any) -> None:
    if not isinstance(given, str):
        keys_of(given)


def check_hash_key(given: Any) -> None:
    if given is None:
        return
    secret = secret_of(given, "the key")
    listed = settings.ENCRYPTION_KEYS
    if not isinstance(listed, str) and secret in map(decoded, filter(is_text, listed)):
        raise ValueError(
            "is one of ENCRYPTION_KEYS, which are changed from time to time. Make one "
            "of its own."
        )


def is_text(key: Any) -> bool:
    return isinstance(key, str)


def check_tasks() -> Iterator[CheckMessage]:
    encrypted = [task for task in registry.tasks.values() if task.options.encrypted]
    hashed = [task for task in encrypted if task.options.keyed_hash]
    if encrypted and not has_package():
        yield lacking(NO_PACKAGE, encrypted[0], "pgjobs.W081")
    if encrypted and not settings.ENCRYPTION_KEYS:
        yield lacking(NO_KEY, encrypted[0], "pgjobs.W082")
    if hashed and settings.HASH_KEY is None:
        yield lacking(NO_HASH_KEY, hashed[0], "pgjobs.W083")


def lacking(what: str, task: Any, id: str) -> CheckMessage:
    return Warning(what, hint=CONSEQUENCE.format(task=task.name), obj=task, id=id)
