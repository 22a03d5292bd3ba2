"""The number of the job that a child has taken, in memory that the worker shares.

A frame that said so would wake the worker for each job, which asks only once a child
is gone. What the child has written stays when it is killed.
"""

import mmap
import os
import tempfile

SIZE = 8  # bytes of a lease token


class Mark:
    def __init__(self, descriptor: int):
        self.shared = mmap.mmap(descriptor, SIZE)

    def set(self, lease_token: int) -> None:
        self.shared[:] = lease_token.to_bytes(SIZE, "big")

    def get(self) -> int:
        return int.from_bytes(self.shared[:], "big")

    def close(self) -> None:
        self.shared.close()


def shared_file() -> int:
    """Return the descriptor of a file without a name, for both sides to map."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pgjobs")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor
