"""Faults of starting processes meet a process that has just come, in its start."""

import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos import happenings  # noqa: F401  (makes the faults known)
from chaos.faults import FAULTS, Fault, Victim
from chaos.fleet import Fleet, Member
from chaos.happenings.starts import children_of
from tests.processes import wait_for

SLEEP = "import time; time.sleep(600)"
# Replaces a child that has ended, as a supervisor does.
SUPERVISE = f"""
import subprocess, sys
while True:
    subprocess.Popen([sys.executable, "-c", {SLEEP!r}]).wait()
"""


class Sleepers(Fleet):
    """A fleet whose processes only sleep; none of them ever registers."""

    def start_member(self, member: Member) -> None:
        if member.process is not None:
            member.former.append(member.process)
        member.generation += 1
        code = SUPERVISE if member.processes else SLEEP
        member.process = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=True
        )


@contextmanager
def fleet_of(member: Member, scratch: Path):
    fleet = Sleepers([member], {}, scratch)
    fleet.start()
    if member.processes:
        wait_for(lambda: children_of(member.process.pid), "its worker has come")
    try:
        yield fleet
    finally:
        fleet.stop()


def state_of(pid: int) -> str:
    """Return T if the process is stopped, S if it sleeps."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0]


def stage_of(fleet: Fleet, victims=list) -> SimpleNamespace:
    return SimpleNamespace(fleet=fleet, victims=victims)


@pytest.mark.parametrize(("kind", "processes"), [("worker", 0), ("supervisor", 1)])
def test_starting_process_is_killed_and_another_one_follows(kind, processes, tmp_path):
    member = Member("alpha", processes)
    with fleet_of(member, tmp_path) as fleet:
        first = member.process
        fault = Fault(f"kill a starting {kind}", 0.0)
        with FAULTS[fault.kind](stage_of(fleet), fault, 0.3):
            wait_for(lambda: len(member.former) == 2, "the third one has come")
        second = member.former[1]
        assert (first.wait(), second.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert (fault.pids[-1], fault.has_met_start) == (second.pid, True)


@pytest.mark.parametrize(("kind", "processes"), [("worker", 0), ("supervisor", 1)])
def test_starting_process_stands_still_as_long_as_the_fault(kind, processes, tmp_path):
    member = Member("alpha", processes)
    with fleet_of(member, tmp_path) as fleet:
        fault = Fault(f"stop a starting {kind}", 0.0)
        with FAULTS[fault.kind](stage_of(fleet), fault, 0.3):
            wait_for(lambda: state_of(member.process.pid) == "T", "it has stopped")
        wait_for(lambda: state_of(member.process.pid) == "S", "it goes on")
        assert fault.pids[-1] == member.process.pid
        assert fault.has_met_start


def test_worker_that_its_supervisor_starts_is_stopped(tmp_path):
    member = Member("alpha", 1)
    with fleet_of(member, tmp_path) as fleet:
        (first,) = children_of(member.process.pid)
        jobs = [(1, 1)]
        fault = Fault("stop a starting worker", 0.0)
        stage = stage_of(fleet, lambda: [Victim("alpha.1", first, jobs)])
        with FAULTS[fault.kind](stage, fault, 0.3):
            (second,) = children_of(member.process.pid)
            wait_for(lambda: state_of(second) == "T", "it has stopped")
        assert (fault.pids, fault.met) == ([first, second], jobs)
        assert state_of(member.process.pid) != "T"


def test_process_that_has_registered_does_not_count_as_starting(tmp_path):
    member = Member("gamma", 0)
    with fleet_of(member, tmp_path) as fleet:
        fault = Fault("stop a starting worker", 0.0)
        registered = lambda: [Victim("gamma", member.process.pid, [])]  # noqa: E731
        with FAULTS[fault.kind](stage_of(fleet, registered), fault, 0.3):
            assert not fault.has_met_start
