"""Free ports of this machine, for servers that benchmarks and tests start."""

import random
import socket
from contextlib import ExitStack

# Below those that Linux gives to clients. A client that has ended keeps its port busy
# for a minute, and a server that starts would not get it.
PORTS = range(10_000, 32_000)
chosen = random.Random()  # Hypothesis seeds the one that all modules share


def free_port(number: int = 1) -> int:
    """Return the first of so many ports in a row that are free at this moment."""
    while True:
        first = chosen.choice(PORTS)
        with ExitStack() as held:
            try:
                for port in range(first, first + number):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:  # another program has one of them
                continue
            return first
