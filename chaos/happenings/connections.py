"""Faults between workers and the database: sessions, network, server, disk."""

from collections.abc import Iterator

from chaos.clocks import LIBRARY
from chaos.faults import Fault, Skipped, Stage, fault
from chaos.proxy import Trouble


@fault("terminate sessions of a worker")
def terminate_some(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """End one of its sessions, or all: the loop's, the heartbeat's, a job's..."""
    name = stage.victim(fault, draw).name
    with stage.server.connect() as connection:
        sessions = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, "
            "'pgjobs:') AND application_name LIKE '%%' || %s OR application_name = %s "
            "ORDER BY backend_start",
            [f":{name}", f"chaos:task:{name}"],
        ).fetchall()
        if not sessions:
            raise Skipped("it has no sessions")
        some = sessions if draw > 0.7 else [sessions[int(draw * len(sessions))]]
        for (pid,) in some:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    yield


@fault("terminate all sessions")
def terminate_all(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    stage.meet_all(fault)
    with stage.server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    yield


@fault("stop and start the server")
def restart(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    stage.meet_all(fault)
    stage.server.stop("immediate" if draw > 0.2 else "fast")
    try:
        yield
    finally:
        stage.server.start()


def troubling(kind: str, trouble: Trouble, of_one: bool) -> None:
    """Register a trouble of the network, of one worker or of all programs."""

    @fault(kind)
    def happening(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
        if of_one:
            part = f":{stage.victim(fault, draw).name}"
        else:
            part = ":"
            stage.meet_all(fault)
        stage.network.begin(part, trouble)
        try:
            yield
        finally:
            stage.network.end(part)


troubling("freeze the network of a worker", Trouble.FREEZE, of_one=True)
troubling("freeze the network", Trouble.FREEZE, of_one=False)
troubling("cut the network of a worker", Trouble.CUT, of_one=True)
troubling("cut the network", Trouble.CUT, of_one=False)
troubling("slow network", Trouble.SLOW, of_one=False)
troubling("swallow answers", Trouble.SWALLOW, of_one=True)


@fault("full disk")
def fill_disk(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Fill the disk; the server may die of it, and comes back once there is room."""
    disk = stage.server.disk
    if not disk.is_small:
        raise Skipped("mounting a tmpfs is not allowed here")
    stage.meet_all(fault)
    disk.fill()
    disk.fill_up()
    try:
        yield
    finally:
        disk.free()
        stage.server.bring_up()


# Its clock


@fault("step the clock of the server")
def step_clock(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Step it, as a wrong time server does, by more than a lease, and back."""
    if LIBRARY is None:
        raise Skipped("faketime is not installed")
    stage.meet_all(fault)
    stage.server.clock.step(["-15", "+15"][int(draw * 2)])
    try:
        yield
    finally:
        stage.server.clock.step("+0")
