"""Read two-line elements, the form in which orbits are published."""

from datetime import datetime
from typing import NamedTuple

from sgp4.api import Satrec
from sgp4.conveniences import sat_epoch_datetime
from sgp4.io import verify_checksum

LINE_LENGTH = 69


class InvalidElements(ValueError):
    """The text is no list of two-line elements."""


class Elements(NamedTuple):
    """What one satellite's three lines say."""

    catalog_number: int
    name: str
    line1: str
    line2: str
    epoch: datetime


def read_elements(text: str) -> list[Elements]:
    """Read name, line 1 and line 2 of each satellite; skip blank and # lines."""
    lines = [
        (number, line.rstrip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise InvalidElements("The file holds no elements.")
    return [_read_one(lines[start : start + 3]) for start in range(0, len(lines), 3)]


def _read_one(lines):
    number = lines[0][0]
    texts = [text for _, text in lines]
    try:
        name, line1, line2 = _check(texts)
        satrec = Satrec.twoline2rv(line1, line2)
        epoch = sat_epoch_datetime(satrec)
    except ValueError as error:
        raise InvalidElements(f"Line {number}: {error}") from error
    return Elements(satrec.satnum, name.strip(), line1, line2, epoch)


def _check(texts):
    if len(texts) != 3:
        raise ValueError("a name and two lines of elements are needed.")
    name, line1, line2 = texts
    if not name.isprintable() or len(name) > LINE_LENGTH:
        raise ValueError(f"a name of up to {LINE_LENGTH} characters is needed.")
    for prefix, line in (("1 ", line1), ("2 ", line2)):
        if not line.startswith(prefix) or len(line) != LINE_LENGTH:
            raise ValueError(
                f"after the name {name!r} a line of {LINE_LENGTH} characters that "
                f"starts with {prefix!r} is needed, got {line!r}."
            )
    if line1[2:7] != line2[2:7]:
        raise ValueError("the two lines name different satellites.")
    verify_checksum(line1, line2)
    return name, line1, line2
