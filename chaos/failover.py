"""Let the primary be lost under load, again and again: `python -m chaos.failover`.

    python -m chaos.failover --seconds 120 --synchronous
    python -m chaos.failover --seconds 120
    python -m chaos.failover --seconds 120 --patroni

A run of chaos with two servers in place of a network and its faults. Programs know
both addresses (`host=a,b target_session_attrs=read-write`). Replication is paused for
a moment, the primary is ended as by a power cut, the standby is promoted, and a new
standby begins to follow. With `--patroni`, Patroni notices, promotes and lets the lost
server follow; it is ended together with its server. The checker judges what the last
primary has.

A synchronous standby must lose nothing that was acknowledged. An asynchronous one may
lose what was acknowledged while replication was paused, and nothing else; what is left
must be consistent.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from .checker.evidence import Evidence, Version
from .checker.judging import judge
from .collect import environment
from .faults import Fault
from .journal import ACKNOWLEDGED, IN_DOUBT, Transaction
from .pair import Pair
from .patroni import Cluster
from .report import report
from .run import Plan, Run, megabytes_for, tell
from .server import Unusable

PEACE = 8.0  # seconds of load before each loss
SLACK = 0.3  # seconds between the pause and the look at the clock


class Failover(NamedTuple):
    """One change of the primary; times as seconds since 1970."""

    paused_at: float  # nothing reaches the standby any more
    lost_at: float
    promoted_at: float  # the standby was asked to take over


class FailoverRun(Run):
    """A run whose server changes."""

    def __init__(self, plan: Plan, kind: type[Pair], is_synchronous: bool):
        super().__init__(plan)
        self.kind = kind
        self.is_synchronous = is_synchronous
        self.failovers: list[Failover] = []

    def new_server(self) -> Pair:
        return self.kind(megabytes_for(self.plan.seconds), self.is_synchronous)

    @property
    def through(self) -> dict[str, str]:
        return environment(self.server.ports, self.server.password)

    def inflict_all(self) -> None:
        random = Random(self.plan.seed)
        end = time.monotonic() + self.plan.seconds
        while time.monotonic() < end:
            time.sleep(PEACE)
            self.fail_over(random.uniform(0.1, 1.5), random.uniform(0, 2))
        time.sleep(PEACE)

    def fail_over(self, paused: float, noticed: float) -> None:
        """Lose the primary after a pause of replication; promote when it is noticed."""
        fault = Fault("fail over", time.time())
        self.stage.meet_all(fault)
        sender = self.server.pause_replication()
        paused_at = time.time()
        time.sleep(paused)
        lost_at, port = time.time(), self.server.port
        self.server.lose_primary(sender)
        time.sleep(noticed)
        promoted_at = self.server.take_over()
        self.failovers.append(Failover(paused_at, lost_at, promoted_at))
        self.server.add_standby(port)
        fault.ended_at = time.time()
        self.faults.append(fault)
        tell(f"failed over to port {self.server.port}, met {len(fault.met)} jobs")

    def play(self) -> Evidence:
        evidence = super().play()
        return evidence if self.is_synchronous else self.excused(evidence)

    def excused(self, evidence: Evidence) -> Evidence:
        """Doubt what was acknowledged while nothing reached the standby."""
        doubted = [
            transaction._replace(outcome=IN_DOUBT, ids=[])
            if self.may_be_lost(transaction)
            else transaction
            for transaction in evidence.transactions
        ]
        return replace(evidence, transactions=doubted)

    def may_be_lost(self, transaction: Transaction) -> bool:
        return transaction.outcome == ACKNOWLEDGED and any(
            each.paused_at - SLACK < transaction.ended_at < each.promoted_at + SLACK
            for each in self.failovers
        )


def figures(failovers: Sequence[Failover], evidence: Evidence) -> list[str]:
    """Return a table: how long it took until the first job ran again."""
    lines = [
        "| primary lost at s | promoted after s | first claim after promotion, s "
        "| first success after promotion, s |",
        "|---:|---:|---:|---:|",
    ]
    for each in failovers:
        begun = each.lost_at - failovers[0].lost_at
        claim = first_after(each.promoted_at, evidence, Version.is_running)
        success = first_after(each.promoted_at, evidence, Version.is_finished)
        outage = each.promoted_at - each.lost_at
        lines.append(f"| {begun:.1f} | {outage:.1f} | {claim:.1f} | {success:.1f} |")
    return lines


def first_after(moment: float, evidence: Evidence, condition: property) -> float:
    """Return after how many seconds a job first met a condition."""
    times = (
        version.committed_at - moment
        for version in evidence.versions
        if version.committed_at > moment and condition.fget(version)
    )
    return min(times, default=float("nan"))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.failover")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N")
    parser.add_argument("--seed", type=int, default=7, metavar="N")
    parser.add_argument("--synchronous", action="store_true")
    parser.add_argument("--patroni", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        plan = Plan(chosen.seed, chosen.seconds, [])
        kind = Cluster if chosen.patroni else Pair
        with FailoverRun(plan, kind, chosen.synchronous) as run:
            evidence = run.play()
    except Unusable as error:
        tell(str(error))
        return 2
    judged = judge(evidence)
    lines = [*figures(run.failovers, evidence), "", *report(evidence, judged)]
    print("\n".join(lines))  # noqa: T201
    return 1 if any(each.violations for each in judged) else 0


if __name__ == "__main__":
    # As Ctrl-C does, so that no server and no worker stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
