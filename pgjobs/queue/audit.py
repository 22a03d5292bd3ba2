"""Deleting what is old of the audit trail, of versions and of groups of errors."""

from ..sql import statement
from .statements import Execute

PRUNED_AT_ONCE = 1_000


def prune_audit(execute: Execute, audit: float, figures: float) -> int:
    """Delete a batch of what is old; return how many entries of the audit trail.

    `audit`: the greatest age of an entry, in seconds. `figures`: the same for versions,
    which the charts show beside their figures.
    """
    parameters = {"audit": audit, "figures": figures, "limit": PRUNED_AT_ONCE}
    ((number,),) = execute(statement("prune_audit"), parameters)
    return number
