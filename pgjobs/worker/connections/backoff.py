"""When to try again what has failed: later each time."""

import random

SPREAD = 0.8  # of a pause, at least: workers do not keep the same times


def early(seconds: float) -> float:
    """Return these seconds or up to a fifth less."""
    return seconds * random.uniform(SPREAD, 1)


class Backoff:
    """Each pause is as long as it has failed until then, so that they double."""

    def __init__(self, first: float, longest: float):
        self.first = first  # seconds
        self.longest = longest
        self.since: float | None = None  # monotonic time of the first failure
        self.retry_at = 0.0  # monotonic time

    def failed(self, now: float) -> float:
        """Plan the next try; return the seconds until then."""
        if self.since is None:
            self.since = now
        wait = early(min(max(now - self.since, self.first), self.longest))
        self.retry_at = now + wait
        return wait

    def passed(self) -> None:
        """Remember that it works."""
        if self.since is not None:
            self.since, self.retry_at = None, 0.0

    def lasts(self, now: float) -> float:
        """Return for how many seconds it has failed; 0 while it works."""
        return 0.0 if self.since is None else now - self.since

    def is_waiting(self, now: float) -> bool:
        """Whether the last try failed and the next one is not due yet."""
        return now < self.retry_at
