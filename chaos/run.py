"""One run: a server, a fleet, people, faults; and then peace, until all has ended."""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg

from . import audit, happenings  # noqa: F401
from .checker.evidence import Evidence
from .collect import NARROW, PREFETCHING, environment, evidence
from .faults import Fault, Stage, inflict
from .fleet import GRACE, Fleet, Member
from .happenings.processes import meet_member
from .proxy import Network
from .server import Server
from .timeline import Planned

START = 60.0  # seconds, for the first workers to register
HEALING = 60.0  # seconds without faults, for everything to end
UNFINISHED = """
SELECT count(*) FROM pgjobs_job AS job
WHERE finished_at IS NULL AND NOT EXISTS (
    SELECT FROM chaos.version
    WHERE job_id = job.id AND operation = 'INSERT' AND actor = 'chaos:poison'
) AND task NOT IN ('project.tick', 'project.chime', 'project.knell')
"""
# A worker that counts units claims nothing in an admission, nor does it prefetch.
MEMBERS = (
    ("alpha", 2),
    ("beta", 2),
    # Declares one schedule more than the others.
    ("gamma", 0, False, ("--queues", "lines"), True),
    ("delta", 0, True),
    (PREFETCHING, 0, False, ("--queues", "swift", "--prefetch", "auto")),
)
PEOPLE = ("producer", "producer", "operator")


@dataclass
class Plan:
    """What a run does."""

    seed: int
    seconds: float
    faults: list[Planned]
    healing: float = HEALING
    orders: str = ""  # only these kinds, with commas between
    backlog: int = 200  # unfinished jobs at which producers hold back


def megabytes_for(seconds: float) -> int:
    """Return the size of a disk that a run of this length does not fill."""
    return 700 + int(seconds / 3600 * 500)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


class Run:
    """Everything of one run, in a scratch directory; a context manager."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.faults: list[Fault] = []
        self.people: list[subprocess.Popen] = []

    def __enter__(self) -> "Run":
        self.stack = ExitStack()
        try:
            self.set_up()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *error) -> None:
        self.stack.close()

    def set_up(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="pgjobs-chaos-journals-")
        self.scratch = Path(self.stack.enter_context(directory))
        self.server = self.new_server()
        self.stack.callback(self.server.remove)
        self.server.start()
        self.server.make_owner()
        self.make_tables()
        self.network = Network(self.server.port)
        self.stack.callback(self.network.close)
        members = [Member(*each) for each in MEMBERS]
        self.fleet = Fleet(members, self.through, self.scratch)
        self.fleet.start()
        self.stack.callback(self.stop_fleet)
        self.wait_for_workers()

    def new_server(self) -> Server:
        return Server(megabytes_for(self.plan.seconds))

    @property
    def through(self) -> dict[str, str]:
        """Return the environment of all who connect through the network."""
        return environment(self.network.port, self.server.password)

    def make_tables(self) -> None:
        direct = environment(self.server.port, self.server.password)
        command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
        subprocess.run(command, env=direct, cwd=self.scratch, check=True)
        with self.server.connect() as connection:
            audit.install(connection)
            connection.execute(
                "INSERT INTO pgjobs_queue (name, max_running) VALUES "
                "('narrow', %s), ('default', NULL)",
                [NARROW],
            )

    def wait_for_workers(self) -> None:
        deadline = time.monotonic() + START
        while self.count("SELECT count(*) FROM pgjobs_worker") < len(MEMBERS):
            if time.monotonic() > deadline:
                raise SystemExit(f"The workers do not start:\n{self.workers_log}")
            time.sleep(0.1)

    @property
    def stage(self) -> Stage:
        return Stage(self.server, self.network, self.fleet)

    @property
    def workers_log(self) -> str:
        return (self.scratch / "workers.log").read_text(errors="replace")[-5_000:]

    def count(self, query: str) -> int:
        with self.server.connect() as connection:
            return connection.execute(query).fetchone()[0]

    # The play

    def play(self) -> Evidence:
        """Let everything happen; return the evidence."""
        self.start_people()
        self.inflict_all()
        self.stop_people()
        self.heal()
        ended_at = time.time()
        self.stop_fleet()
        with self.server.connect() as connection:
            return evidence(connection, self.scratch, self.faults, ended_at)

    def start_people(self) -> None:
        for number, role in enumerate(PEOPLE):
            name = f"{role}{number}"
            wishes = {
                "CHAOS_NAME": f"chaos:{name}",
                "CHAOS_ORDERS": self.plan.orders,
                "CHAOS_BACKLOG": str(self.plan.backlog),
            }
            journal = str(self.scratch / f"{name}.journal")
            command = [sys.executable, "-m", "chaos.players", role, name, journal]
            process = subprocess.Popen(
                [*command, str(self.plan.seed)],
                env={**self.through, **wishes},
                cwd=self.scratch,
                stdin=subprocess.PIPE,
                stderr=(self.scratch / f"{name}.log").open("wb"),
                start_new_session=True,
            )
            self.people.append(process)
            self.stack.callback(process.kill)

    def inflict_all(self) -> None:
        begun = time.monotonic()
        for planned in self.plan.faults:
            time.sleep(max(0.0, begun + planned.at - time.monotonic()))
            happened = inflict(self.stage, planned)
            self.faults.append(happened)
            note = happened.skipped or f"met {len(happened.met)} jobs"
            tell(
                f"{time.monotonic() - begun:7.1f} {planned.kind} "
                f"({planned.seconds:.1f} s, {happened.target}): {note}"
            )
        time.sleep(max(2.0, begun + self.plan.seconds - time.monotonic()))

    def stop_people(self) -> None:
        for process in self.people:
            process.stdin.close()
        for process in self.people:
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code > 0:
                raise SystemExit(self.words_of(process))

    def words_of(self, process: subprocess.Popen) -> str:
        log = self.scratch / f"{process.args[4]}.log"
        return f"{process.args[3]} failed:\n{log.read_text()[-3_000:]}"

    def heal(self) -> None:
        """Wait until all has ended; newcomers need a release that knows them."""
        self.server.bring_up()
        if self.fleet.release % 2 == 0:
            self.fleet.release += 1
        for member in self.fleet.members:
            last = Fault("last deploy", time.time(), time.time() + GRACE)
            meet_member(self.stage, last, member)
            self.faults.append(last)
            self.fleet.deploy(member)
        deadline = time.monotonic() + self.plan.healing
        while (left := self.unfinished()) and time.monotonic() < deadline:
            time.sleep(0.5)
        tell(f"healed: {left} jobs are unfinished")

    def unfinished(self) -> int:
        try:
            return self.count(UNFINISHED)
        except psycopg.Error:
            return -1

    def stop_fleet(self) -> None:
        if not self.fleet.is_stopping.is_set():
            self.fleet.stop()
