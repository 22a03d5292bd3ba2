"""Settings of the suffering project: short times, so that a run meets many faults."""

import os
import sys
from itertools import pairwise

# As quick as the guarantees allow, so that a minute has room for many recoveries.
POLL, HEARTBEAT, LEASE, SLOTS = 1.0, 1.0, 6.0, 3
UNITS = 1_000  # more than a prefetching worker may hold, which counts none


def program_name() -> str:
    """Return what the sessions of the tasks are called: so a fault can find them."""
    given = [after for name, after in pairwise(sys.argv) if name == "--name"]
    return f"chaos:task:{given[-1]}" if given else "chaos:command"


# One port, or those of two servers, of which one is the primary.
PORTS = os.environ.get("CHAOS_PORT", "")

INSTALLED_APPS = ["pgjobs", "chaos.project"]
SECRET_KEY = "only-for-the-chaos"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "chaos_owner",
        "PASSWORD": os.environ.get("CHAOS_PASSWORD", ""),
        "HOST": ",".join("127.0.0.1" for _ in PORTS.split(",")),
        "PORT": PORTS,
        "OPTIONS": {
            "application_name": os.environ.get("CHAOS_NAME") or program_name(),
            "sslmode": "disable",
            "gssencmode": "disable",
            "connect_timeout": 5,
            "target_session_attrs": "read-write",
        },
    }
}
PGJOBS = {
    "POLL_INTERVAL": POLL,
    "HEARTBEAT_INTERVAL": HEARTBEAT,
    "LEASE_DURATION": LEASE,
    "CONCURRENCY": SLOTS,
    "UNITS_PATIENCE": 2,
    "TIMEOUT_GRACE": 2,
    # So a claim takes what a worker of the same release has waited for.
    "VERSION": os.environ.get("CHAOS_RELEASE", "1"),
}
