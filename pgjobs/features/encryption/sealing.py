"""The form of an encrypted value, and the mark of a job that has some.

`Job.keys["encrypted"]` is the mark: `by`, a random text of the job, and `names`, its
encrypted arguments by name; `rest`, whether those without a name are. A value is
`<id of the key>:<base64 of nonce, ciphertext and tag>`. Its associated data are `by`
and the place of the value, so that it opens in no other job and at no other place.
"""

import binascii
import os
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.plain_json import dump_checked, load
from ...exceptions import EncryptionError
from ...reports.json_text import MASK
from .keyring import keyring

MARK = "encrypted"  # in `Job.keys`
SEALED = "pgjobs_encrypted"  # the only key of what stands for a whole value
WHOLE = re.compile(rf'{{\s*"{SEALED}"\s*:\s*"[^"]*(?:"\s*}})?')
ID = re.compile("[0-9a-f]{8}")  # of a key
NONCE = 12  # bytes, as AES-GCM wants them
RESULT = "result"
NO_MARK = "The mark of the job's encryption cannot be read."
REST = "rest"  # the place of the arguments without a name


@dataclass(frozen=True)
class Seal:
    """Encrypts and decrypts the values of one job, by its random text."""

    by: str

    @classmethod
    def new(cls) -> "Seal":
        return cls(secrets.token_urlsafe(16))

    def bound_to(self, place: str) -> bytes:
        # `by` has no space, so no two pairs give the same text.
        return f"pgjobs 1 {self.by} {place}".encode()

    def close(self, place: str, text: str) -> str:
        """Return a text encrypted by the first key. Raises EncryptionError."""
        key = keyring().first
        nonce = os.urandom(NONCE)
        closed = key.cipher.encrypt(nonce, text.encode(), self.bound_to(place))
        return f"{key.id}:{urlsafe_b64encode(nonce + closed).decode()}"

    def open(self, place: str, token: Any) -> str:
        """Return the text. Raises NoKey, and EncryptionError for any other value."""
        id, parts = read(token)
        if parts is None:
            raise EncryptionError(f"The value of {place} is not an encrypted one.")
        cipher = keyring().get(id).cipher
        text = opened_by(cipher, parts, self.bound_to(place))
        if text is None:
            raise EncryptionError(
                f"The value of {place} does not open by key {id}: it was changed, or "
                "belongs to another job or parameter."
            )
        return text

    def whole(self, place: str, text: str) -> str:
        """Return the JSON text that stands for a whole value, such as a result."""
        return dump_checked({SEALED: self.close(place, text)})


def opened_by(cipher: Any, parts: bytes, bound_to: bytes) -> str | None:
    try:
        return cipher.decrypt(parts[:NONCE], parts[NONCE:], bound_to).decode()
    except Exception:  # noqa: BLE001  (InvalidTag, of a package that may be missing)
        return None


def read(token: Any) -> tuple[str, bytes | None]:
    """Return the id of the key of an encrypted value, and its bytes if it is one."""
    if not isinstance(token, str):
        return "", None
    id, _, encoded = token.partition(":")
    if not ID.fullmatch(id):
        return "", None
    try:
        parts = urlsafe_b64decode(encoded.encode())
    except (binascii.Error, ValueError):
        return id, None
    return id, parts if len(parts) > NONCE else None


def is_whole(value: Any) -> bool:
    """Whether a value stands for an encrypted one, in a job that has the mark.

    A value that an operator gives such a job by SQL stands there as it is.
    """
    return isinstance(value, dict) and value.keys() == {SEALED}


def without_wholes(text: str) -> str:
    """Return JSON text with a mask for each value that stands for an encrypted one.

    The text may be cut short.
    """
    return WHOLE.sub(MASK, text)


def opened(seal: Seal | None, place: str, value: Any) -> Any:
    """Return the value of a whole; any other one as it is. Raises EncryptionError."""
    if seal is None or not is_whole(value):
        return value
    return load(seal.open(place, value[SEALED]))


def seal_of(mark: Any) -> Seal | None:
    """Return the seal of a job by its mark; None if it has none."""
    if mark is None:
        return None
    by, names = map(mark.get, ("by", "names")) if isinstance(mark, dict) else (0, 0)
    is_list = isinstance(names, list) and all(isinstance(each, str) for each in names)
    if not isinstance(by, str) or not by or not is_list:
        raise EncryptionError(NO_MARK)
    return Seal(by)


# Arguments


def argument(name: str) -> str:
    """Return the place of an argument."""
    return f"argument {name}"


def step(name: str) -> str:
    """Return the place of what a step or a wait keeps: an answer has its name, too."""
    return f"step {name}"


@dataclass(frozen=True)
class Arguments:
    """The arguments of a job as JSON texts, and its mark if some are encrypted."""

    args: str
    kwargs: str
    mark: dict[str, Any]


def close_arguments(
    args: str, kwargs: str, covers: Callable[[str], bool], rest: bool, seal: Seal
) -> Arguments:
    """Encrypt the arguments that `covers` names; `rest`: those without a name, too."""
    named = load(kwargs)
    names = [name for name in named if covers(name)]
    for name in names:
        named[name] = seal.close(argument(name), dump_checked(named[name]))
    mark: dict[str, Any] = {"by": seal.by, "names": names}
    if rest and args != "[]":
        mark[REST] = True
        args = dump_checked([seal.close(REST, args)])
    return Arguments(args, dump_checked(named), mark)


def plain_kwargs(row: dict[str, Any]) -> dict[str, Any]:
    """Return the plain arguments of a row that has `args`, `kwargs` and `keys`."""
    mark = (row["keys"] or {}).get(MARK)
    text = row["kwargs"]
    return load(text if mark is None else open_arguments(row["args"], text, mark)[1])


def open_arguments(args: str, kwargs: str, mark: dict[str, Any]) -> tuple[str, str]:
    """Return the plain JSON texts of a job's arguments. Raises EncryptionError."""
    seal = seal_of(mark)
    if seal is None:
        return args, kwargs
    try:
        named = load(kwargs)
        for name in mark.get("names") or ():
            if name in named:
                named[name] = load(seal.open(argument(name), named[name]))
        if mark.get(REST):
            (token,) = load(args)
            args = seal.open(REST, token)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, EncryptionError):
            raise
        raise EncryptionError("The encrypted arguments cannot be read.") from None
    return args, dump_checked(named)
