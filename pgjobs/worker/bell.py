"""A pipe that ends a sleep, from any thread and from signal handlers."""

import os


class Bell:
    """Ends a sleep, from any thread and from signal handlers: it takes no locks."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(self.write_end, False)

    def ring(self) -> None:
        try:
            os.write(self.write_end, b"!")
        except (BlockingIOError, OSError):
            return  # full: it rings already; or closed: nobody sleeps

    def clear(self) -> None:
        try:
            while os.read(self.read_end, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Fall silent; whoever rings later must not write to another file."""
        ends = self.read_end, self.write_end
        self.read_end = self.write_end = -1
        for end in ends:
            os.close(end)
