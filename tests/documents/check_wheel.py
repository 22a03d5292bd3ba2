"""What the wheel says of itself: `python -m tests.documents.check_wheel WHEEL`.

`wheel.txt` beside this has the names that others rely on: the distribution's, what it
needs, its extras and entry points. Who means to change them changes that file, too.
Then pip is asked what the extras would install: no distribution `pgjobs`, which is
another project's. It needs an index.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

EXPECTED = Path(__file__).with_name("wheel.txt")
FIELDS = ("Name", "Requires-Python", "Requires-Dist", "Provides-Extra")
STRANGER = "pgjobs"


def lines_of(wheel: Path) -> list[str]:
    """Return what others rely on, a line each."""
    return [*metadata_of(wheel), *entry_points_of(wheel)]


def read(wheel: Path, name: str) -> str:
    with ZipFile(wheel) as packed:
        (found,) = (each for each in packed.namelist() if each.endswith(name))
        return packed.read(found).decode()


def metadata_of(wheel: Path) -> Iterator[str]:
    message = Parser().parsestr(read(wheel, ".dist-info/METADATA"))
    for field, value in message.items():
        if field in FIELDS:
            yield f"{field}: {value}"


def entry_points_of(wheel: Path) -> Iterator[str]:
    for line in read(wheel, ".dist-info/entry_points.txt").splitlines():
        if line:
            yield f"entry point: {line}"


def installed_with(wheel: Path, extras: list[str]) -> set[str]:
    """Return the distributions that pip would install; raise if it cannot."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--disable-pip-version-check", "--ignore-installed", "--report", "-"]
    wanted = f"{wheel.resolve()}[{','.join(extras)}]"
    report = subprocess.check_output([*command, wanted])
    return {each["metadata"]["name"] for each in json.loads(report)["install"]}


def faults_of(wheel: Path) -> Iterator[str]:
    lines, expected = lines_of(wheel), EXPECTED.read_text().splitlines()
    yield from (f"the wheel says, {EXPECTED.name} not: {each}"
                for each in lines if each not in expected)  # fmt: skip
    yield from (f"{EXPECTED.name} says, the wheel not: {each}"
                for each in expected if each not in lines)  # fmt: skip
    extras = [each.partition(": ")[2] for each in lines if "Provides-Extra" in each]
    if STRANGER in (names := installed_with(wheel, extras)):
        yield f"its extras install another project's {STRANGER}: {sorted(names)}"


if __name__ == "__main__":
    faults = list(faults_of(Path(sys.argv[1])))
    if faults:
        sys.exit("\n".join(faults))
