"""The figures that workers add up: how jobs ended, and how long they ran and waited."""

from ..base.plain_json import dump
from ..sql import statement
from ..sql.columns import BUCKETS
from .statements import Execute

# Bucket 0 has the durations under 1 ms; each further one reaches twice as far. The last
# one, from 19 hours on, has all others. In memory every duration has a bucket of its
# own, because finding it costs less then.
MOST_BUCKETS = 64
PRUNED_AT_ONCE = 10_000


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket of a duration, of those in memory."""
    return int(seconds * 1_000).bit_length() if seconds > 0 else 0


def folded(buckets: list[int]) -> list[int]:
    """Return the buckets that are stored."""
    return [*buckets[: BUCKETS - 1], sum(buckets[BUCKETS - 1 :])]


def upper_bound(bucket: int) -> float:
    """Return the seconds that no duration of a bucket reaches."""
    return 2**bucket / 1_000


def add_figures(execute: Execute, rows: list[dict]) -> None:
    """Add sums by queue and task to those of the current minute and hour."""
    execute(statement("add_figures"), {"rows": dump(rows)})


def prune_figures(execute: Execute, minutes: float, hours: float) -> int:
    """Delete a batch of figures of minutes, and of hours, beyond an age in seconds."""
    parameters = {"minutes": minutes, "hours": hours, "limit": PRUNED_AT_ONCE}
    ((number,),) = execute(statement("prune_figures"), parameters)
    return number
