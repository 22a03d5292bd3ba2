"""Which failures are the same: task, exception, place in the code, and message."""

import hashlib
import re
import sysconfig
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple

from ...base.texts import storable
from ...worker.slots.outcomes import class_path

# The statement that records failures with their groups, and what it stores.
STATEMENT = "record_with_group"
STORES = "groups of errors"
LONGEST_PLACE = 300
LONGEST_PATTERN = 300
# Code that the project did not write.
FOREIGN = (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    str(Path(__file__).resolve().parents[2]),
)
# What differs between messages that mean the same: quoted texts, then addresses in
# memory and ids, then numbers.
VARIABLE = (
    re.compile(r"'[^']{1,200}'|\"[^\"]{1,200}\""),
    re.compile(r"\b(?:0x)?(?=[0-9a-f-]*[0-9])[0-9a-f]{6,}(?:-[0-9a-f]+)*\b", re.I),
    re.compile(r"\d+"),
)


class Group(NamedTuple):
    error_group: int
    place: str  # module and function
    pattern: str  # the message without what differs


def details_of(task: str, error: BaseException, message: str) -> Group:
    """Return the group of a failure: fields of its outcome."""
    place = storable(place_of(error.__traceback__), LONGEST_PLACE)
    pattern = pattern_of(message)
    text = "\n".join((task, class_path(error), place, pattern))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return Group(int.from_bytes(digest, "big") >> 1, place, pattern)  # 63 bits


def place_of(frames: TracebackType | None) -> str:
    """Return the innermost function of the project's own code, or the innermost one."""
    own = last = ""
    while frames is not None:
        last = name_of(frames.tb_frame)
        if not frames.tb_frame.f_code.co_filename.startswith(FOREIGN):
            own = last
        frames = frames.tb_next
    return own or last


def name_of(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"


def pattern_of(message: str) -> str:
    """Return a message with the same mark for all that differs from job to job."""
    pattern = storable(message, 4 * LONGEST_PATTERN)
    for variable in VARIABLE:
        pattern = variable.sub("#", pattern)
    return pattern[:LONGEST_PATTERN]
