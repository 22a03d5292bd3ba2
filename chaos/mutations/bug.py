"""What a bug is: texts of the package, replaced by others."""

from typing import NamedTuple

STOP = "stop a worker for longer than its lease"

# The last line of defence: the database lets nothing begin again within a life.
WITHOUT_THE_LAST_LINE = (
    (
        "RAISE 'Job % cannot go back:",
        "IF TG_OP = 'UPDATE' THEN RETURN NULL; END IF;\n"
        "    RAISE 'Job % cannot go back:",
    ),
    # For statements that name the status, and none of the other columns.
    ("IF NEW.life = OLD.life AND (", "IF false AND ("),
)


class Bug(NamedTuple):
    """What is changed, and which verdict must notice."""

    name: str
    verdict: str
    edits: tuple[tuple[str, str], ...]
    orders: str = "plain,several"
    faults: str = "none"
    seconds: int = 12

    @property
    def backlog(self) -> int:
        """Few long jobs, so that a free worker takes over what another one lost.

        And few batches, so that what comes after one need not wait for the others, and
        few jobs that wait, which go on several times each.
        """
        if "long" in self.orders:
            return 3
        return 30 if self.orders in ("waits", "batched") else 200
