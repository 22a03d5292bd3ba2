"""Types: mypy and pyright see what a task takes and returns through every way in."""

import json
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
# basedpyright is pyright with a Node.js of its own, which pip installs.
PYRIGHT = Path(sys.executable).with_name("basedpyright")


@pytest.fixture
def sample(tmp_path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "sample.py"))


def expected() -> dict[int, str]:
    """Return {line: code of the error} that the sample asks for."""
    lines = enumerate(SAMPLE.read_text().splitlines(), 1)
    return {
        number: found[1] for number, line in lines if (found := REFUSED.search(line))
    }


def output_of(*command: str | Path, where: Path) -> str:
    run = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=240
    )
    assert run.stderr == ""
    return run.stdout


def test_mypy_refuses_the_sample_where_it_is_wrong_and_nowhere_else(sample):
    printed = output_of(*MYPY, *OPTIONS, sample, where=HERE.parent)
    found = {int(number): code for number, code in ERROR.findall(printed)}
    assert found == expected(), printed
    assert len(expected()) > 15


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists(), reason="basedpyright is not installed")
def test_pyright_refuses_the_sample_where_it_is_wrong_and_nowhere_else(sample):
    how = {"typeCheckingMode": "standard", "extraPaths": [str(HERE.parent)]}
    sample.with_name("pyrightconfig.json").write_text(json.dumps(how))
    command = [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, sample]
    printed = output_of(*command, where=sample.parent)
    faults = json.loads(printed)["generalDiagnostics"]
    found = {
        each["range"]["start"]["line"] + 1
        for each in faults
        if each["severity"] == "error"
    }
    assert found == expected().keys(), printed


def test_package_says_that_it_is_typed():
    assert (HERE.parent / "pgjobs" / "py.typed").exists()
