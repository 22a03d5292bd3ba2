"""What worker and child send each other: JSON texts, each behind its length.

A frame is a list: its kind, and what belongs to it. Nothing is unpickled.
"""

import json
import socket
import struct
from threading import Lock
from typing import Any

LENGTH = struct.Struct("!I")
LONGEST = 256_000_000  # bytes: several times what a row may hold
SEND_SECONDS = 30  # for a process to read, before it counts as hung


class Garbled(Exception):
    """What has come is no frame: other code has written to the pipe."""


class Frames:
    """One end of a pipe in both directions. `send` may be called by any thread."""

    def __init__(self, end: socket.socket):
        self.socket = end
        patience = struct.pack("ll", SEND_SECONDS, 0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        self.lock = Lock()
        self.received = bytearray()

    def send(self, *frame: Any, flags: int = 0) -> None:
        """Send one frame; raises OSError if the other side is gone, or hangs."""
        data = packed(frame)
        with self.lock:
            if not flags:
                self.socket.sendall(data)
            elif self.socket.send(data, flags) < len(data):
                raise BlockingIOError("The other side does not read.")

    def fill(self) -> bool:
        """Receive some bytes; return False if the other side is gone."""
        try:
            data = self.socket.recv(65536)
        except OSError:
            return False
        self.received += data
        return bool(data)

    def take(self) -> list | None:
        """Return the next frame that has come as a whole; raises Garbled."""
        if len(self.received) < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(self.received)
        if size > LONGEST:
            raise Garbled
        end = LENGTH.size + size
        if len(self.received) < end:
            return None
        text = bytes(self.received[LENGTH.size : end])
        del self.received[:end]
        try:
            frame = json.loads(text.decode())
        except ValueError:
            raise Garbled from None
        if not isinstance(frame, list) or not frame:
            raise Garbled
        return frame


def packed(frame: Any) -> bytes:
    data = json.dumps(frame).encode()
    return LENGTH.pack(len(data)) + data
