"""Types: mypy sees a task's own arguments through every way to enqueue it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HERE = Path(__file__).resolve().parent
SAMPLE = HERE / "typing_sample.py.txt"
REFUSED = re.compile(r"  # refused: ([a-z-]+)$")
ERROR = re.compile(r"sample\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)
MYPY = [sys.executable, "-m", "mypy", "--no-error-summary"]
# What projects are told of, not what we do inside.
OPTIONS = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]


def expected() -> dict[int, str]:
    """Return {line: code of the error} that the sample asks for."""
    lines = enumerate(SAMPLE.read_text().splitlines(), 1)
    return {
        number: found[1] for number, line in lines if (found := REFUSED.search(line))
    }


def test_sample_is_refused_where_it_is_wrong_and_nowhere_else(tmp_path):
    shutil.copy(SAMPLE, tmp_path / "sample.py")
    run = subprocess.run(
        [*MYPY, *OPTIONS, str(tmp_path / "sample.py")],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stderr == ""
    found = {int(number): code for number, code in ERROR.findall(run.stdout)}
    assert found == expected(), run.stdout
    assert len(expected()) > 15


def test_package_says_that_it_is_typed():
    assert (HERE.parent / "pgjobs" / "py.typed").exists()
