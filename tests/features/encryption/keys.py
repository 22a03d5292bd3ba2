"""Keys of tests, and settings that have them."""

import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator

from django.conf import settings as django_settings
from django.test import override_settings

from pgjobs.features.encryption.keyring import keys_of


def key(number: int) -> str:
    return urlsafe_b64encode(bytes([number]) * 32).decode()


FIRST, SECOND, OTHER = key(1), key(2), key(3)
HASH_KEY = key(9)


def id_of(text: str) -> str:
    return keys_of([text])[0].id


@contextlib.contextmanager
def keys(*given: str, hash_key: str | None = HASH_KEY) -> Iterator[None]:
    """Let this process have these keys."""
    changed = {"ENCRYPTION_KEYS": list(given), "HASH_KEY": hash_key}
    with override_settings(PGJOBS={**django_settings.PGJOBS, **changed}):
        yield
