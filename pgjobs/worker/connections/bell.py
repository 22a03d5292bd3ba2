"""A pipe that ends a sleep, from any thread and from signal handlers."""

import os
import signal

from ...base.forks import keep_private


class Bell:
    """Ends a sleep. Any thread and any signal handler may ring: no lock is taken."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(self.write_end, False)
        self.hears_signals = False
        # Not empty while something sleeps that `wake` is to end, and nothing has rung.
        self.alarm: list[str] = []
        keep_private(self, Bell.ends)

    def ends(self) -> tuple[int, int]:
        return self.read_end, self.write_end

    def ring(self) -> None:
        try:
            os.write(self.write_end, b"!")
        except (BlockingIOError, OSError):
            return  # the pipe is full (it rings already), or closed (nothing sleeps)

    def wake(self) -> None:
        """Ring if the alarm is set. Call this after putting down work for the sleeper.

        Once is enough: each ring hands the interpreter to another thread. This clears
        only the alarm that it has seen, after ringing: a slow thread must not switch
        off the alarm of the next sleep.
        """
        alarm = self.alarm
        if alarm:
            self.ring()
            alarm.clear()

    def hear_signals(self) -> None:
        """Ring at each signal of this process. Call it in the main thread.

        A handler that is written in Python cannot end every sleep: Python calls it
        after the system call, even if the signal came just before that.
        """
        self.hears_signals = True
        signal.set_wakeup_fd(self.write_end, warn_on_full_buffer=False)

    def clear(self) -> None:
        try:
            while os.read(self.read_end, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the pipe. A later ring must not write to another file."""
        if self.hears_signals:
            signal.set_wakeup_fd(-1)
        ends = self.ends()
        self.read_end = self.write_end = -1
        for end in ends:
            if end >= 0:  # it is not closed yet
                os.close(end)
