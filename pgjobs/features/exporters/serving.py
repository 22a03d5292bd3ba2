"""The metrics that a worker serves, if the package for them is there."""

from importlib.util import find_spec

from ...worker import Loop
from ..http.server import Metrics


def metrics(loop: Loop, number: int, siblings: list[str]) -> Metrics | None:
    """Return what answers scrapes; see `WorkerMetrics`."""
    if not find_spec("prometheus_client"):
        return None
    from .prometheus import WorkerMetrics  # an extra

    return WorkerMetrics(loop, number, siblings)
