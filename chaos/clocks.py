"""Clocks that can be stepped: libfaketime (Debian's `faketime`), if it is installed."""

import os
import time
from pathlib import Path

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
# What Python needs to bear it.
FOR_PYTHON = Path(__file__).resolve().parent / "clock"


class Clock:
    """A file from which some processes learn what time it is."""

    def __init__(self, path: Path):
        self.path = path
        self.step("+0")
        path.chmod(0o644)  # the server is another user

    def step(self, offset: str) -> None:
        # One write of few bytes: no process reads half of it.
        self.path.write_text(offset)

    @property
    def environment(self) -> dict[str, str]:
        """Return what lets a process go by this clock; its waits last as they say."""
        if LIBRARY is None:
            return {}
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def environment_of_python(self, environment: dict[str, str]) -> dict[str, str]:
        paths = f"{FOR_PYTHON}{os.pathsep}{environment['PYTHONPATH']}"
        return {**environment, **self.environment, "PYTHONPATH": paths}


def started_at() -> float:
    """Return when this machine counts its uptime from, which no fake clock changes."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime
