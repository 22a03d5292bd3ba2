"""Histories made by hand: a good one, from which each test breaks one thing."""

from collections.abc import Sequence

from chaos.checker.evidence import (
    DeliveryRow,
    EffectRow,
    Evidence,
    FaultRow,
    TickRow,
    Version,
    WorkerRow,
)
from chaos.checker.judging import judge
from chaos.journal import ACKNOWLEDGED, Transaction

PRODUCER, OPERATOR = "chaos:producer0", "chaos:operator2"
FIRST, SECOND = "pgjobs:loop:a.1", "pgjobs:loop:b.1"
WORKERS = [
    WorkerRow("INSERT", 1, "a.1", 101, 3, 0.0),
    WorkerRow("INSERT", 2, "b.1", 102, 3, 0.0),
]


class Story:
    """Writes versions down in the order of their commits, a second apart."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.time = 100.0

    def write(self, job_id: int, actor: str, **changes) -> Version:
        """Add a version of a job: its last one, with these changes."""
        self.time += 1
        earlier = [each for each in self.versions if each.job_id == job_id]
        last = earlier[-1] if earlier else Version(job_id, "READY")
        number = len(self.versions) + 1
        version = last._replace(
            seq=number,
            moment=number,
            operation="UPDATE" if earlier else "INSERT",
            actor=actor,
            began_at=self.time,
            at=self.time,
            committed_at=self.time,
        )._replace(**changes)
        self.versions.append(version)
        return version

    def enqueue(self, job_id: int, **values) -> Version:
        return self.write(job_id, PRODUCER, mark=f"mark-{job_id}", **values)

    def claim(self, job_id: int, worker: int = 1, **changes) -> Version:
        attempts = self.last(job_id).attempts + 1
        token = max(version.token for version in self.versions) + 1
        actor = FIRST if worker == 1 else SECOND
        claim = {"status": "RUNNING", "attempts": attempts, "token": token}
        return self.write(job_id, actor, **{**claim, "worker_id": worker, **changes})

    def succeed(self, job_id: int, actor: str = FIRST, **changes) -> Version:
        attempts = self.last(job_id).attempts
        end = {"status": "SUCCESSFUL", "worker_id": None, "recorded_attempt": attempts}
        return self.write(job_id, actor, **{**end, **changes})

    def rescue(self, job_id: int, actor: str = SECOND, **changes) -> Version:
        last = self.last(job_id)
        token = max(version.token for version in self.versions) + 1
        back = {"status": "READY", "worker_id": None, "crashes": last.crashes + 1}
        return self.write(job_id, actor, **{**back, "token": token, **changes})

    def last(self, job_id: int) -> Version:
        return [each for each in self.versions if each.job_id == job_id][-1]

    def evidence(self, **other) -> Evidence:
        """Return it with the journal and the effects that it needs to be a good one."""
        firsts = [each for each in self.versions if each.operation == "INSERT"]
        given = {
            "transactions": [
                Transaction(f"t{v.job_id}", "plain", [v.mark], ACKNOWLEDGED, [v.job_id])
                for v in firsts
                if v.mark
            ],
            "effects": effects_of(self.versions),
            "workers": WORKERS,
            "ended_at": self.time + 1,
        }
        return Evidence(self.versions, **{**given, **other})


def effects_of(versions: Sequence[Version]) -> list[EffectRow]:
    return [
        EffectRow(version.job_id, version.life, version.attempts, "ran")
        for version in versions
        if version.status == "RUNNING"
    ]


def broken(evidence: Evidence) -> set[str]:
    """Return the names of the verdicts that found something."""
    return {verdict.name for verdict, violations in judge(evidence) if violations}


def kill(at: float, pid: int = 101) -> FaultRow:
    return FaultRow("kill a worker", at, at, "a.1", (pid,), ((1, 1),))


def tick(number: int, job_id: int | None, next_run_at: float) -> TickRow:
    time = 100.0 + 2 * number
    return TickRow("project.tick", "project.tick", time, job_id, 2.0, next_run_at)


def delivery(event_id: int, task: str | None, job_id: int | None) -> DeliveryRow:
    return DeliveryRow(event_id, f"event-{event_id}", task, job_id)


def ran_once(story: Story, job_id: int = 1, **values) -> None:
    """Enqueue a job, and let it succeed in its first attempt."""
    story.enqueue(job_id, **values)
    story.claim(job_id)
    story.succeed(job_id)
