"""A simulation in discrete events: databases of one server, and the workers of each.

It knows cores, the disk, wake-ups, and the lock of an interpreter. It knows nothing of
PostgreSQL's own locks, of checkpoints and of autovacuum. Needs simpy.
"""

import random
import statistics
from collections import deque
from collections.abc import Generator, Sequence
from typing import NamedTuple

import simpy

GATHER = 0.00005  # seconds: GATHER_SECONDS of pgjobs/worker/recorder.py

Steps = Generator[simpy.Event, None, None]


class Parameters(NamedTuple):
    """What a simulation starts from. Times are of a processor unless said otherwise."""

    server_pass: float  # seconds, for a statement that records and claims
    server_job: float  # seconds; one half for its claim, one half for its record
    worker_pass: float  # seconds of the loop
    worker_job: float  # seconds of a slot; one half before the task starts
    server_enqueue: float  # seconds, for a commit of `batch` jobs
    application_enqueue: float  # seconds, for the same
    commits: Sequence[float]  # seconds that the disk takes for a commit, as seen
    wake_ups: Sequence[float]  # seconds until a process that sleeps runs, as seen
    cores: int = 2  # of the machine, or of the server if the workers have others
    worker_cores: int = 0  # of machines for workers and applications; 0: there are none
    shards: int = 1  # databases of the server
    workers: int = 1  # of each shard
    slots: int = 10  # of each worker
    batch: int = 10  # jobs of one commit


class Waits(NamedTuple):
    p50: float  # milliseconds from COMMIT to the start of a job
    p99: float
    utilisation: float  # share of the server's cores
    left: float  # share of the jobs that were still READY at the end


class Drained(NamedTuple):
    rate: float  # jobs a second
    cores: float  # of the server's that were used
    jobs_of_pass: float


class Simulation:
    """A server, its disk and cores; shards and their workers."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        self.chance = random.Random(1)
        self.environment = simpy.Environment()
        self.cores = simpy.Resource(self.environment, parameters.cores)
        self.worker_cores = self.cores
        if parameters.worker_cores:
            self.worker_cores = simpy.Resource(
                self.environment, parameters.worker_cores
            )
        self.disk = simpy.Resource(self.environment, 1)
        self.flushed_from = -1.0
        self.computed = 0.0  # seconds of `cores`
        self.passes = 0  # that recorded jobs
        self.waits: list[float] = []
        self.shards = [Shard(self) for _ in range(parameters.shards)]

    def compute(self, cores: simpy.Resource, seconds: float) -> Steps:
        with cores.request() as core:
            yield core
            yield self.environment.timeout(seconds)
        if cores is self.cores:
            self.computed += seconds

    def wake_up(self) -> simpy.Event:
        return self.environment.timeout(self.wake_up_seconds())

    def wake_up_seconds(self) -> float:
        return self.chance.choice(self.parameters.wake_ups)

    def commit(self) -> Steps:
        """Wait for a flush that begins from now on. All who wait share the next one."""
        asked = self.environment.now
        with self.disk.request() as granted:
            yield granted
            if self.flushed_from < asked:
                self.flushed_from = self.environment.now
                seconds = self.chance.choice(self.parameters.commits)
                yield self.environment.timeout(seconds)


class Shard:
    """A database, with its READY jobs: when the application knew of each COMMIT."""

    def __init__(self, simulation: Simulation):
        self.simulation = simulation
        self.ready: deque[float] = deque()
        number = simulation.parameters.workers
        self.workers = [Worker(simulation, self) for _ in range(number)]

    def take(self, most: int) -> list[float]:
        return [self.ready.popleft() for _ in range(min(most, len(self.ready)))]

    def arrivals(self, rate: float, at_random: bool) -> Steps:
        """Enqueue so many jobs a second, whatever becomes of them."""
        simulation = self.simulation
        interval = simulation.parameters.batch / rate
        yield simulation.environment.timeout(simulation.chance.uniform(0, interval))
        while True:
            simulation.environment.process(self.enqueue())
            spread = simulation.chance.expovariate(1) if at_random else 1.0
            yield simulation.environment.timeout(interval * spread)

    def enqueue(self) -> Steps:
        simulation, parameters = self.simulation, self.simulation.parameters
        seconds = parameters.application_enqueue
        yield from simulation.compute(simulation.worker_cores, seconds)
        yield from simulation.compute(simulation.cores, parameters.server_enqueue)
        yield from simulation.commit()
        known = simulation.environment.now + simulation.wake_up_seconds()
        self.ready.extend([known] * parameters.batch)
        for worker in self.workers:
            simulation.environment.process(worker.hear())


class Worker:
    """The loop of a worker, and its slots, which share the lock of its interpreter."""

    def __init__(self, simulation: Simulation, shard: Shard):
        self.simulation, self.shard = simulation, shard
        self.environment = simulation.environment
        self.interpreter = simpy.Resource(self.environment, 1)
        self.bell = self.environment.event()
        self.held = self.ended = 0  # jobs claimed; those of them to be recorded
        self.may_find = True  # READY jobs
        self.waiting: deque[float] = deque()  # jobs claimed that no slot has begun
        self.environment.process(self.loop())

    @property
    def room(self) -> int:
        return self.simulation.parameters.slots - self.held

    def compute(self, seconds: float) -> Steps:
        with self.interpreter.request() as lock:
            yield lock
            yield from self.simulation.compute(self.simulation.worker_cores, seconds)

    def hear(self) -> Steps:
        yield self.simulation.wake_up()  # the session that listens
        self.may_find = True
        self.ring()

    def ring(self) -> None:
        if not self.bell.triggered:
            self.bell.succeed()

    def loop(self) -> Steps:
        while True:
            if not (self.ended or (self.may_find and self.room)):
                self.bell = self.environment.event()
                yield self.bell
                yield self.simulation.wake_up()
            else:
                yield from self.run_pass()

    def run_pass(self) -> Steps:
        """Record what has ended and claim for the free slots, in one commit."""
        parameters = self.simulation.parameters
        if 0 < self.ended < self.held:
            yield self.environment.timeout(GATHER)
        yield from self.compute(parameters.worker_pass)
        recorded, self.ended, self.may_find = self.ended, 0, False
        self.held -= recorded
        self.simulation.passes += bool(recorded)
        yield self.simulation.wake_up()  # the worker's session
        room = self.room
        claimed = self.shard.take(room)
        self.held += len(claimed)
        seconds = parameters.server_job * (len(claimed) + recorded) / 2
        seconds += parameters.server_pass
        yield from self.simulation.compute(self.simulation.cores, seconds)
        if claimed or recorded:
            yield from self.simulation.commit()
        yield self.simulation.wake_up()  # the loop
        self.may_find |= len(claimed) == room
        self.waiting.extend(claimed)
        for _ in claimed:
            self.environment.process(self.run_waiting())

    def run_waiting(self) -> Steps:
        """Let a slot wake and run jobs until none waits in the worker.

        Python takes its lock from a thread that computes only after 5 ms.
        """
        simulation = self.simulation
        half = simulation.parameters.worker_job / 2
        yield simulation.wake_up()
        with self.interpreter.request() as lock:
            yield lock
            while self.waiting:
                committed = self.waiting.popleft()
                yield from simulation.compute(simulation.worker_cores, half)
                simulation.waits.append(self.environment.now - committed)
                yield from simulation.compute(simulation.worker_cores, half)
                self.ended += 1
                self.ring()


def drain(parameters: Parameters, jobs: int) -> Drained:
    """Return how fast workers run so many jobs that wait in each shard."""
    simulation = Simulation(parameters)
    for shard in simulation.shards:
        shard.ready.extend([0.0] * jobs)
    simulation.environment.run()
    seconds = simulation.environment.now
    done = jobs * parameters.shards
    return Drained(
        rate=done / seconds,
        cores=simulation.computed / seconds,
        jobs_of_pass=done / simulation.passes,
    )


def waits(
    parameters: Parameters, rate: float, seconds: float, *, at_random: bool = True
) -> Waits:
    """Return how long jobs wait, at so many jobs a second of all shards together.

    They come at random moments, or at even intervals.
    """
    simulation = Simulation(parameters)
    for shard in simulation.shards:
        arrivals = shard.arrivals(rate / parameters.shards, at_random)
        simulation.environment.process(arrivals)
    simulation.environment.run(until=seconds)
    centiles = statistics.quantiles(simulation.waits, n=100, method="inclusive")
    utilisation = simulation.computed / seconds / parameters.cores
    left = sum(len(shard.ready) for shard in simulation.shards)
    left /= left + len(simulation.waits)
    return Waits(1e3 * centiles[49], 1e3 * centiles[98], utilisation, left)
