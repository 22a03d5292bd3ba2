"""The environments that systems run in: one each, made from a pinned list."""

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from .catalogue import System

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".environments"


class NotInstalled(Exception):
    """A system cannot be installed here; the message says why."""


def install(system: System) -> None:
    """Make the system's environment, unless it is there; raises NotInstalled."""
    if system.requirements is None:
        return
    pinned = HERE / "requirements" / system.requirements
    wanted = hashlib.sha256(pinned.read_bytes() + sys.version.encode()).hexdigest()
    directory = directory_of(system)
    mark = directory / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(directory, ignore_errors=True)
    if system.is_javascript:
        directory.mkdir(parents=True)
        shutil.copy(pinned, directory / "package.json")
        run("npm", "install", "--no-audit", "--no-fund", "--prefix", directory)
    else:
        venv.create(directory, with_pip=True)
        pip = [directory / "bin/pip", "--disable-pip-version-check", "--quiet"]
        run(*pip, "install", "--requirement", pinned)
    mark.write_text(wanted)


def run(*command: str | Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise NotInstalled(f"{command[0]} cannot be started: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERR" in line.upper()]
        raise NotInstalled("; ".join(lines) or done.stderr.strip())


def command_of(system: System) -> list[str]:
    """Return what runs the system's adapter; the role is to follow."""
    if system.is_javascript:
        return ["node", str(HERE / "systems" / f"{system.adapter}.js")]
    python = sys.executable
    if system.requirements is not None:
        python = str(directory_of(system) / "bin/python")
    return [python, "-m", "benchmarks.adapter", system.adapter]


def version_of(system: System) -> str:
    """Return the pinned version; empty for what is measured in the driver's own."""
    if system.requirements is None:
        return ""
    lines = (HERE / "requirements" / system.requirements).read_text().splitlines()
    name = Path(system.requirements).stem
    bare = (line.strip(' ",').replace('": "', "==") for line in lines)
    return next((line for line in bare if line.startswith(name)), "")


def directory_of(system: System) -> Path:
    assert system.requirements is not None
    return ENVIRONMENTS / Path(system.requirements).stem
