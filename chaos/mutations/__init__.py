"""The bugs that the checker must catch, by what they break."""

from . import attempts, flow, keys, queue, waits
from .bug import Bug

BUGS: list[Bug] = [
    *attempts.BUGS,
    *keys.BUGS,
    *queue.BUGS,
    *flow.BUGS,
    *waits.BUGS,
]
