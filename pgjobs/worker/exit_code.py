"""How a worker ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    STOPPED = 0  # as asked: drained, a limit reached, or a signal and all jobs ended
    LOST = 1  # could not start, or lost its database for good
    GRACE_OVER = 3  # jobs were released that would not end in time
    SECOND_SIGNAL = 4  # jobs were released at once
    RESTART = 5  # the process reached a limit of its own; another one shall follow
