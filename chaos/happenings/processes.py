"""Faults of processes: killed, stopped, replaced, and told another time."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from chaos.clocks import LIBRARY
from chaos.faults import Fault, Skipped, Stage, fault
from chaos.fleet import Member, signal_group


@fault("kill a worker")
def kill_worker(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    send(stage.victim(fault, draw).pid, signal.SIGKILL)
    yield


@fault("kill a supervisor")
def kill_supervisor(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    member = drawn(supervisors(stage), draw)
    meet_member(stage, fault, member)
    send(member.process.pid, signal.SIGKILL)
    yield


@fault("kill all workers for a while")
def kill_all(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Kill all processes at once; none comes back before the fault ends."""
    stage.meet_all(fault)
    with stage.fleet.lock:
        for member in stage.fleet.members:
            signal_group(member.process, signal.SIGKILL)
        yield


@fault("stop a worker for longer than its lease")
@fault("stop a worker for a moment")
def stop_worker(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    pid = stage.victim(fault, draw).pid
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


@fault("stop a supervisor")
def stop_supervisor(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    member = drawn(supervisors(stage), draw)
    meet_member(stage, fault, member)
    pid = member.process.pid
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


@fault("deploy")
def deploy(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Replace a member by the next release, which knows one task more or less."""
    member = drawn(stage.fleet.members, draw)
    meet_member(stage, fault, member)
    stage.fleet.release += 1
    stage.fleet.deploy(member)
    yield


@fault("step the clock of a worker")
def step_clock(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    if LIBRARY is None:
        raise Skipped("faketime is not installed")
    member = next(each for each in stage.fleet.members if each.has_own_clock)
    meet_member(stage, fault, member)
    stage.fleet.clock.step(["-1d", "-30", "+30", "+2h"][int(draw * 4)])
    try:
        yield
    finally:
        stage.fleet.clock.step("+0")


def supervisors(stage: Stage) -> list[Member]:
    return [member for member in stage.fleet.members if member.processes]


def drawn(members: list[Member], draw: float) -> Member:
    return members[int(draw * len(members))]


def meet_member(stage: Stage, fault: Fault, member: Member) -> None:
    """Keep in the fault the member, and what its workers run."""
    fault.target = f"{member.name}.{member.generation}"
    mine = [
        victim for victim in stage.victims() if victim.name.startswith(fault.target)
    ]
    fault.pids = [member.process.pid, *(victim.pid for victim in mine)]
    fault.met = [job for victim in mine for job in victim.jobs]


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
