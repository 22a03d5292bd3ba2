"""What the overview keeps beside figures: audit trail, versions, groups of errors."""

from ..sql import statement
from .statements import Execute

PRUNED_AT_ONCE = 1_000


def prune_audit(execute: Execute, audit: float, figures: float) -> int:
    """Delete a batch of old entries; return how many.

    `audit`: the greatest age of an entry of the audit trail, in seconds. `figures`: the
    same for versions, which the charts show beside their figures.
    """
    parameters = {"audit": audit, "figures": figures, "limit": PRUNED_AT_ONCE}
    ((number,),) = execute(statement("prune_audit"), parameters)
    return number
