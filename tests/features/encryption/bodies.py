"""Encrypted tasks whose body a test gives: a worker finds only functions of modules."""

import os
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pgjobs import current_job, task

IBAN = "DE89370400440532013000"
body: Callable[..., Any] = lambda *arguments: None  # noqa: E731
got: list[Any] = []


def again(failures: int) -> float:
    return 0


@task(name="tests.encryption.pay", encrypted=("iban",), max_attempts=2, backoff=again)
def pay(iban: str, amount: Decimal = Decimal("1.50")):
    got.append((iban, amount))
    return body(current_job(), iban)


@task(name="tests.encryption.apay", encrypted=("iban",), max_attempts=1)
async def apay(iban: str):
    got.append(iban)
    return {"iban": iban}


@task(name="tests.encryption.all", encrypted=True)
def pay_all(*ibans: str, amount: int = 1, **rest: str):
    got.append((ibans, amount, rest))


@task(name="tests.encryption.atomic", encrypted=True, atomic=True)
def pay_atomic(iban: str):
    return iban


@task(
    name="tests.encryption.awaits",
    encrypted=("iban",),
    waits_for=("order.paid",),
    max_attempts=2,
    backoff=again,
)
def awaits(iban: str):
    return body(current_job(), iban)


@task(name="tests.encryption.takes", max_attempts=1)
def takes(iban: str):
    got.append(iban)
    return body(current_job(), iban)


@task(
    name="tests.encryption.keyed",
    encrypted=("iban",),
    keyed_hash=True,
    lock="iban {iban}",
    unique=("iban",),
    rate="100/minute",
    rate_key="{iban}",
)
def keyed(iban: str):
    got.append(iban)


@task(
    name="tests.encryption.isolated",
    keep_logs="INFO",
    encrypted=("iban",),
    isolated=True,
    max_attempts=1,
)
def pay_apart(iban: str, fails: bool):
    os.write(1, f"printed {iban}\n".encode())
    current_job().log(f"to {iban}")
    if fails:
        raise ValueError(f"no {iban}")
    return iban


written: list[str] = []  # which files this process has opened to write
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
HARMLESS = ("/dev/", "/proc/", "__pycache__")


@cache
def watch_from_now_on() -> None:
    def watch(event: str, arguments: tuple) -> None:
        if event == "open" and (arguments[2] or 0) & WRITING:
            path = str(arguments[0])
            if not any(each in path for each in HARMLESS):
                written.append(path)

    sys.addaudithook(watch)


@task(
    name="tests.encryption.writes",
    encrypted=True,
    isolated=True,
    keep_logs="INFO",
    max_attempts=1,
)
def watch_files(iban: str, filler: str) -> list:
    """Return how often this process has run it, and which files it has opened since."""
    watch_from_now_on()
    got.append(iban)
    current_job().log(f"to {iban}")
    return [len(got), *written]


@task(name="tests.encryption.looks", encrypted=True, isolated=True, max_attempts=1)
def look_around(iban: str) -> list[str]:
    """Return where this process or its parent shows the value to other programs."""
    return [
        str(path)
        for process in ("self", os.getppid())
        for name in ("cmdline", "environ", "comm")
        if iban.encode() in (path := Path(f"/proc/{process}/{name}")).read_bytes()
    ]
