"""How much memory this process uses."""

import os
import resource
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident size of this process; without /proc, its largest so far."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(100).split()[1]) * PAGE
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
