"""The keeper of one child: a program that has nothing of the project.

It forks the child, which then becomes the project's process, and waits: for an order
of the worker, for the end of the child, and for the end of the pipe to the worker, by
which the worker's death is known at once. Then it kills all descendants of the child,
also those that have left its process group or session, and reaps them. It has no
thread and no lock, so nothing that the child does can stop it.

Python runs this file as a script, and it must import nothing but what is below.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

LOOK_SECONDS = 0.1  # between two looks at the memory
PAUSE = 0.002  # seconds between two rounds of killing
LARGEST_HELLO = 16_000_000  # bytes
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
ON_LINUX = sys.platform == "linux"


def ignore(*args) -> None:
    """Handle a signal. Unlike SIG_IGN, a handler is not handed on to programs."""


def main() -> None:
    control, frames, mark, out, err = map(int, sys.argv[1:])
    for number in HEARD:
        signal.signal(number, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    if ON_LINUX:
        control_process(PR_SET_CHILD_SUBREAPER, 1)
    wakes, woken = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, ignore)
    signal.set_wakeup_fd(woken)
    own = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (control, wakes, woken):
            os.close(descriptor)
        become_child(own, frames, mark, out, err)
    for descriptor in (frames, mark, out, err):
        os.close(descriptor)
    Keeper(control, child, wakes).run()


def control_process(what: int, value: int) -> None:
    ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def become_child(keeper: int, frames: int, mark: int, out: int, err: int) -> NoReturn:
    """Go on as the process of the project, which leads a group of its own."""
    try:
        os.setpgid(0, 0)
        if ON_LINUX:
            control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
            raise_badness()
        if os.getppid() != keeper:
            os._exit(1)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        import json  # the keeper does without

        (hello,) = json.loads(read_frame(frames))
        sys.path[:] = hello["path"]
        os.environ["DJANGO_SETTINGS_MODULE"] = hello["settings"]
        from pgjobs.features.isolation.inside import serve

        serve(frames, mark, hello)
    except BaseException:  # noqa: BLE001  (the worker gets it by the pipe of errors)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def raise_badness() -> None:
    """Let the kernel end this process before the worker when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            value = min(int(file.read()) + 300, 1000)
            file.seek(0)
            file.write(str(value))
    except (OSError, ValueError):
        return


def read_frame(descriptor: int) -> bytes:
    size = int.from_bytes(read_exactly(descriptor, 4), "big")
    if size > LARGEST_HELLO:
        raise ValueError("The worker has sent no hello.")
    return read_exactly(descriptor, size)


def read_exactly(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            os._exit(0)  # the worker is gone
        data += more
    return data


class Keeper:
    def __init__(self, control: int, child: int, wakes: int):
        self.control = control
        self.child = child
        self.wakes = wakes
        self.status: int | None = None  # that the child has ended with
        self.received = b""
        self.limit = 0  # bytes; 0: none
        self.say(f"pid {child}")

    def say(self, line: str) -> None:
        try:
            os.write(self.control, f"{line}\n".encode())
        except OSError:
            return  # the worker is gone, which the next look at the pipe tells

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wakes, select.POLLIN)
        must_end = False
        while not must_end and self.status is None:
            wait = LOOK_SECONDS * 1000 if self.limit else None
            for descriptor, _ in poll.poll(wait):
                if descriptor == self.control:
                    must_end |= not self.obey()
                else:
                    os.read(self.wakes, 4096)
            self.reap()
            if self.limit and self.status is None:
                must_end |= self.is_too_large()
        self.kill_all()
        self.say(f"ended {self.status}")

    def obey(self) -> bool:
        """Take the worker's orders; return whether the child may live."""
        try:
            data = os.read(self.control, 4096)
        except OSError:
            data = b""
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            if line == b"kill":
                return False
            self.limit = int(line.removeprefix(b"limit "))
        return bool(data)

    def has_orders(self) -> bool:
        return bool(select.select([self.control], [], [], 0)[0])

    def reap(self) -> bool:
        """Bury who has ended, orphans too; return whether any process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.status = os.waitstatus_to_exitcode(status)

    def kill_all(self) -> None:
        """Kill until nobody is left: what is being killed may start others."""
        while True:
            self.kill_group()
            for pid in descendants(os.getpid()):
                kill(pid)
            if not self.reap():
                return
            time.sleep(PAUSE)

    def kill_group(self) -> None:
        if self.status is None or not ON_LINUX:
            try:
                os.killpg(self.child, signal.SIGKILL)
            except OSError:
                return

    def is_too_large(self) -> bool:
        """Whether child and descendants take more memory than they may; say so."""
        pids = [self.child, *descendants(self.child)]
        if sum(map(resident, pids)) <= self.limit:
            return False
        size = sum(map(proportional, pids))
        if size <= self.limit or self.has_orders():
            return False  # an order may say that the job of this limit has ended
        self.say(f"memory {size}")
        return True


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below one, parents first; none where there is no /proc."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # it has just ended, or there is no /proc
        return found
    return found


def resident(pid: int) -> int:
    """Return the bytes that a process has in memory, with all that it shares."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read(100).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def proportional(pid: int) -> int:
    """Return the same, but of what several processes share each has its part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resident(pid)


if __name__ == "__main__":
    main()
