"""The keys of `PGJOBS["ENCRYPTION_KEYS"]`, and the one of `PGJOBS["HASH_KEY"]`.

No message quotes a key: what is wrong is said by its place in the list.
"""

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from time import monotonic
from typing import Any

from django.utils.module_loading import import_string

from ...conf import settings
from ...exceptions import EncryptionError

BYTES = 32
HOW = (
    "python -c 'import base64, os; "
    "print(base64.urlsafe_b64encode(os.urandom(32)).decode())' makes one"
)
NO_PACKAGE = (
    "The package cryptography is missing: pip install 'django-pgjobs[encryption]'."
)
NO_KEY = "PGJOBS['ENCRYPTION_KEYS'] has no key."
NO_HASH_KEY = "PGJOBS['HASH_KEY'] is not set, which keyed_hash=True needs."
ASK_AGAIN = 60.0  # seconds between two calls of a callable
LONGEST_NAMES = 100  # characters, in a key
LATER = 10.0  # seconds until another worker may have a key


class NoKey(EncryptionError):
    """This process lacks the key, which another one may have."""


def has_package() -> bool:
    return find_spec("cryptography") is not None


class Key:
    """One key: it encrypts and decrypts bytes."""

    def __init__(self, secret: bytes):
        self.id = hashlib.sha256(secret).hexdigest()[:8]
        self.secret = secret

    @cached_property
    def cipher(self) -> Any:
        try:
            # Only who encrypts needs the extra, and the time to import it.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise NoKey(NO_PACKAGE) from None
        return AESGCM(self.secret)


class Keyring:
    """The keys of this process: the first one encrypts, and all decrypt."""

    def __init__(self, given: Any):
        self.given = given
        self.lock = Lock()
        self.read()

    def read(self) -> None:
        self.read_at = monotonic()  # also if it fails: it is not asked again at once
        self.keys = read_keys(self.given)
        self.by_id = {key.id: key for key in self.keys}

    @property
    def first(self) -> Key:
        """The key that encrypts. Raises NoKey."""
        if not self.keys:
            raise NoKey(NO_KEY)
        return self.keys[0]

    def get(self, id: str) -> Key:
        """Return a key by its id. A callable is asked again. Raises NoKey."""
        if id not in self.by_id and isinstance(self.given, str):
            with self.lock:
                if monotonic() - self.read_at >= ASK_AGAIN:
                    self.read()
        if id not in self.by_id:
            raise NoKey(f"PGJOBS['ENCRYPTION_KEYS'] has no key with the id {id!r}.")
        return self.by_id[id]


def read_keys(given: Any) -> list[Key]:
    """Return the keys of the setting; raise EncryptionError."""
    try:
        return keys_of(given)
    except EncryptionError:
        raise
    except ValueError as error:
        raise EncryptionError(f"PGJOBS['ENCRYPTION_KEYS']: {error}") from None


def keys_of(given: Any) -> list[Key]:
    """Return the keys of a list, or of what the callable of a path returns.

    Raises ValueError.
    """
    listed = called(given) if isinstance(given, str) else given
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise ValueError("must be a list of keys, the newest first.")
    keys: list[Key] = []
    for place, text in enumerate(listed, 1):
        key = Key(secret_of(text, f"key {place}"))
        if any(key.id == other.id for other in keys):
            raise ValueError(f"key {place} stands there twice, or has a known id.")
        keys.append(key)
    return keys


def called(path: str) -> Any:
    """Return what the project's callable returns, which may ask another service."""
    try:
        return import_string(path)()
    except Exception as error:  # noqa: BLE001  (it is the project's)
        name = type(error).__name__
    # Not chained: its text could have keys.
    raise NoKey(f"PGJOBS['ENCRYPTION_KEYS']: {path}() raised {name}.")


def secret_of(text: Any, which: str) -> bytes:
    """Return the bytes of a key; raise ValueError, which does not quote it."""
    is_text = isinstance(text, str)
    secret = decoded(text) if is_text else None
    if secret is None or len(secret) != BYTES:
        got = "" if secret is None else f", got {len(secret)}"
        raise ValueError(
            f"{which} must be {BYTES} random bytes as URL-safe base64{got}."
        )
    return secret


def decoded(text: str) -> bytes | None:
    try:
        return urlsafe_b64decode(text.encode())
    except (binascii.Error, ValueError):
        return None


class Held:
    """The keyring of the settings as they are; a test may change them."""

    ring: Keyring | None = None
    lock = Lock()  # so that threads that start together ask once
    failed: tuple[float, str] = 0.0, ""  # when the setting could not be read, and why


def keyring() -> Keyring:
    """Return the keys of this process. Raises EncryptionError."""
    given = settings.ENCRYPTION_KEYS
    ring = Held.ring
    if ring is None or ring.given is not given:
        asked_at = monotonic()
        with Held.lock:
            ring = Held.ring
            if ring is None or ring.given is not given:
                Held.ring = ring = made_of(given, asked_at)
    return ring


def made_of(given: Any, asked_at: float) -> Keyring:
    """Return the keyring of a setting. Raises EncryptionError.

    A callable that has failed since `asked_at` is not asked again: it may take long.
    """
    if Held.failed[0] > asked_at:
        raise NoKey(Held.failed[1])
    try:
        return Keyring(given)
    except EncryptionError as error:
        Held.failed = monotonic(), str(error)
        raise


def keyed_hash(text: str, names: Iterable[str]) -> str:
    """Return what stands for a key made of encrypted arguments of these names.

    Raises NoKey.
    """
    if settings.HASH_KEY is None:
        raise NoKey(NO_HASH_KEY)
    try:
        secret = secret_of(settings.HASH_KEY, "the key")
    except ValueError as error:
        raise EncryptionError(f"PGJOBS['HASH_KEY']: {error}") from None
    digest = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
    return f"hmac of {', '.join(names)[:LONGEST_NAMES]}:{digest}"
