"""Faults of processes that are still starting: killed or stopped before they work."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.faults import Fault, Stage, fault
from chaos.fleet import Member, signal_group

from .processes import meet_member, send

REPLACED = 6.0  # seconds, for another process to come in the place of a killed one
START = 1.2  # seconds that a start takes, or less


@fault("kill a starting worker")
@fault("kill a starting supervisor")
def kill_starting(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    if pid := stopped_in_its_start(stage, fault, draw):
        send(pid, signal.SIGKILL)
    yield


@fault("stop a starting worker")
@fault("stop a starting supervisor")
def stop_starting(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    pid = stopped_in_its_start(stage, fault, draw)
    try:
        yield
    finally:
        if pid:
            send(pid, signal.SIGCONT)


def stopped_in_its_start(stage: Stage, fault: Fault, draw: float) -> int | None:
    """Stop a process somewhere in its start; return its id.

    A process starts because another one is killed: its supervisor or the fleet replaces
    it. None: it was not replaced in time. The fault notes whether the process had
    registered before it was stopped.
    """
    pid = replacement(stage, fault, draw)
    if pid:
        time.sleep(part_of(draw, stage) * START)
        send(pid, signal.SIGSTOP)
        fault.pids.append(pid)
        fault.has_met_start = not has_registered(stage, pid)
    return pid


def replacement(stage: Stage, fault: Fault, draw: float) -> int | None:
    """Kill a member, or one worker of a supervisor; return what comes in its place."""
    members = stage.fleet.members
    if fault.kind.endswith("supervisor"):
        members = [member for member in members if member.processes]
    member = members[int(draw * len(members))]
    if member.processes and fault.kind.endswith("worker"):
        return next_child(stage, fault, member)
    return next_process(stage, fault, member)


def part_of(draw: float, stage: Stage) -> float:
    """Return what is left of the draw once it has chosen the member."""
    return draw * len(stage.fleet.members) % 1


def next_process(stage: Stage, fault: Fault, member: Member) -> int | None:
    before = member.process
    meet_member(stage, fault, member)
    signal_group(before, signal.SIGKILL)
    if soon(lambda: member.process is not before):
        return member.process.pid
    return None


def next_child(stage: Stage, fault: Fault, member: Member) -> int | None:
    fault.target = f"{member.name}.{member.generation}"
    before = children_of(member.process.pid)
    for victim in stage.victims():
        if victim.pid in before:
            fault.target, fault.met = victim.name, victim.jobs
            fault.pids = [victim.pid]
            send(victim.pid, signal.SIGKILL)
            break
    new = soon(lambda: children_of(member.process.pid) - before)
    return min(new) if new else None


def soon(condition: Callable):
    """Return the value of the condition once it is true, or its last one."""
    deadline = time.monotonic() + REPLACED
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return value


def has_registered(stage: Stage, pid: int) -> bool:
    """Whether the process is a worker with a row, or the parent of one."""
    return any(pid in (each.pid, parent_of(each.pid)) for each in stage.victims())


def children_of(pid: int) -> set[int]:
    everything = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return {each for each in everything if parent_of(each) == pid}


def parent_of(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return None
    return int(text.rpartition(")")[2].split()[1])
