"""A worker's pipe to the supervisor that started it.

Orders come in and figures go out. When the pipe ends, the supervisor has ended, for
whatever reason. Then the worker ends too.
"""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import astuple
from time import sleep

from ...base.forks import keep_private
from ..connections.bell import Bell
from ..exit_code import ExitCode
from ..observer import RunStats

# Together less than the five seconds in which no worker may outlive its supervisor.
ORPHANS_GRACE = 1.5  # seconds that running jobs get to end
ORPHANS_LAST_GRACE = 1.5  # and the worker itself, to release them


class SupervisorPipe:
    """The worker's end of the pipe; the supervisor's is `supervisor.WorkerPipe`."""

    MESSAGE = struct.Struct("!4Q")  # figures; the first ones say that all is ready

    def __init__(self, descriptor: int):
        # Processes that jobs start must not have it.
        os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=descriptor)
        keep_private(self.socket)
        self.bell = Bell()

    def obey(self, stop: Callable[[], None]) -> None:
        """From now on call `stop`, once or twice, as the supervisor orders.

        Only one thread calls it: a signal and an order that come together, as by Ctrl-C
        in a terminal, are one request to stop.
        """
        threading.Thread(
            target=self.watch, args=[stop], name="pgjobs-pipe", daemon=True
        ).start()

    def signalled(self, *args) -> None:
        """Handle a signal to the worker itself: stop, and leave haste to orders."""
        self.bell.ring()

    def send(self, stats: RunStats) -> None:
        """Send figures. If the supervisor does not read them, the next ones will do."""
        try:
            self.socket.send(self.MESSAGE.pack(*astuple(stats)), socket.MSG_DONTWAIT)
        except OSError:
            return

    def watch(self, stop: Callable[[], None]) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.register(self.bell.read_end, select.POLLIN)
        obeyed = 0
        while obeyed < 2:
            level = 0
            for descriptor, _ in poll.poll():
                if descriptor == self.bell.read_end:
                    self.bell.clear()
                    level = max(level, 1)
                elif orders := self.orders():
                    level = max(level, int(max(orders)))
                else:
                    return self.end_alone(stop, obeyed)
            for _ in range(obeyed, level):
                stop()
            obeyed = max(obeyed, level)

    def orders(self) -> str:
        """Return the orders that have come, "1" or "2" each, or "" at the end."""
        try:
            return self.socket.recv(64).decode()
        except OSError:
            return ""

    def end_alone(self, stop: Callable[[], None], obeyed: int) -> None:
        if obeyed == 0:
            stop()
        sleep(ORPHANS_GRACE)
        stop()
        sleep(ORPHANS_LAST_GRACE)
        os._exit(ExitCode.SECOND_SIGNAL)
