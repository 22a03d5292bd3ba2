"""How old the answers of a replica are."""

from ...queue.statements import execute_on

# The time of the last transaction that it knows. An idle worker writes, too: its signs
# of life.
AGE = """
SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8
WHERE pg_is_in_recovery()
"""


def replica_age(database: str) -> float | None:
    """Return how many seconds ago its last transaction was; None for a primary."""
    rows = execute_on(database)(AGE, {})
    return rows[0][0] if rows else None
