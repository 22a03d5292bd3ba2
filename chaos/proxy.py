"""A network between workers and their database that can be made to fail."""

import contextlib
import socket
import threading
import time
from enum import Enum

SLOWNESS = 0.1  # seconds that each piece takes on its way through a slow network
NAME = b"application_name\0"


class Trouble(Enum):
    """What may befall the connections of some programs."""

    FREEZE = "forwards nothing, closes nothing: neither end gets an error"
    CUT = "closes what is open, refuses what is new"
    SLOW = "forwards late"
    SWALLOW = "lets the server do what it is asked, and the client never hear of it"


class Link:
    """One connection: two sockets, and a thread for each direction."""

    def __init__(self, network: "Network", client: socket.socket):
        self.network = network
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", network.server_port))
        self.name = b""
        self.has_lost_answers = False
        for target in (self.forward_requests, self.forward_answers):
            threading.Thread(target=target, daemon=True).start()

    @property
    def trouble(self) -> Trouble | None:
        return self.network.trouble_of(self.name)

    def forward_requests(self) -> None:
        while data := received(self.client):
            if not self.name and NAME in data:
                self.name = data.partition(NAME)[2].partition(b"\0")[0]
            self.suffer()
            send(self.server, data)
        self.close()

    def forward_answers(self) -> None:
        while data := received(self.server):
            self.suffer()
            if self.trouble is Trouble.SWALLOW:
                self.has_lost_answers = True
            elif not self.has_lost_answers:
                send(self.client, data)
        self.close()

    def suffer(self) -> None:
        """Wait as long as the network's trouble makes this piece wait."""
        if self.trouble is Trouble.SLOW:
            time.sleep(SLOWNESS)
        while self.trouble is Trouble.FREEZE:
            time.sleep(0.02)
        if self.trouble is Trouble.CUT:
            self.close()

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.network.links.discard(self)


class Network:
    """Forwards data until a fault changes that."""

    def __init__(self, server_port: int):
        self.server_port = server_port
        self.links: set[Link] = set()
        self.troubles: dict[bytes, Trouble] = {}  # by a part of the program's name
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def trouble_of(self, name: bytes) -> Trouble | None:
        for part, trouble in list(self.troubles.items()):
            if part in name:
                return trouble
        return None

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client, _ = self.listener.accept()
                try:
                    self.links.add(Link(self, client))
                except OSError:  # the server is away
                    client.close()

    def begin(self, part: str, trouble: Trouble) -> None:
        """Trouble the connections of programs whose name has this part."""
        self.troubles[part.encode()] = trouble
        if trouble is Trouble.CUT:
            for link in self.linked(part):
                link.close()

    def end(self, part: str) -> None:
        self.troubles.pop(part.encode(), None)
        for link in self.linked(part):
            if link.has_lost_answers:
                link.close()

    def linked(self, part: str) -> list[Link]:
        return [link for link in list(self.links) if part.encode() in link.name]

    def close(self) -> None:
        self.troubles.clear()
        self.listener.close()
        for link in list(self.links):
            link.close()


def received(source: socket.socket) -> bytes:
    try:
        return source.recv(65_536)
    except OSError:
        return b""


def send(sink: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sink.sendall(data)
