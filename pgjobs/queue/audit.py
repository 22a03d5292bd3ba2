"""What the overview keeps beside figures: audit trail, versions, groups of errors."""

from ..sql import statement
from .statements import Execute

PRUNED_AT_ONCE = 1_000


def prune_audit(execute: Execute, audit: float, figures: float) -> int:
    """Delete entries that are so many seconds old, a batch; return how many.

    `figures`: for how many seconds the charts have figures, and show versions.
    """
    parameters = {"audit": audit, "figures": figures, "limit": PRUNED_AT_ONCE}
    ((number,),) = execute(statement("prune_audit"), parameters)
    return number
