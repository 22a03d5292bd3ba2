"""A TCP proxy before the tests' server, which can lose connections in nasty ways."""

import contextlib
import socket
import threading
from pathlib import Path

from tests import settings as test_settings
from tests.processes import database_url


class Link:
    """One connection through the proxy: two sockets and a thread for each direction."""

    def __init__(self, client: socket.socket, server: socket.socket, deadly: bytes):
        self.client = client
        self.server = server
        self.application_name = b""
        self.deadly = deadly
        self.thawed = threading.Event()
        self.thawed.set()
        self.swallows_answers = False
        self.unheard = b""  # an answer with this, and all later ones, are dropped
        for target in (self.forward_requests, self.forward_answers):
            threading.Thread(target=target, daemon=True).start()

    def forward_requests(self) -> None:
        while data := self.received(self.client):
            if b"application_name\0" in data:
                self.application_name = data.partition(b"application_name\0")[2]
            if self.deadly and self.deadly in data:
                self.thawed.clear()
            self.thawed.wait()
            self.send(self.server, data)
        self.close()

    def forward_answers(self) -> None:
        while data := self.received(self.server):
            self.thawed.wait()
            if self.unheard and self.unheard in data:
                self.swallows_answers = True
            if not self.swallows_answers:
                self.send(self.client, data)
        self.close()

    def received(self, source: socket.socket) -> bytes:
        try:
            return source.recv(65_536)
        except OSError:
            return b""

    def send(self, sink: socket.socket, data: bytes) -> None:
        with contextlib.suppress(OSError):
            sink.sendall(data)

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Forwards until it is told otherwise; later connections are always forwarded.

    `role` restricts each of the acts to the connections whose application name has it.
    """

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.deadly = b""  # later connections freeze when they send this
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    @property
    def url(self) -> str:
        return database_url("127.0.0.1", self.port)

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self.listener.accept()
                link = Link(client, connect_to_server(), self.deadly)
                self.links.append(link)

    def linked(self, role: str) -> list[Link]:
        return [link for link in self.links if role.encode() in link.application_name]

    def freeze(self, role: str = "pgjobs:") -> None:
        """Forward nothing any more and close nothing: neither end gets an error."""
        for link in self.linked(role):
            link.thawed.clear()

    def swallow_answers(self, role: str = "pgjobs:") -> None:
        """Let the server do what it is asked, but drop its answers."""
        for link in self.linked(role):
            link.swallows_answers = True

    def swallow_answers_from(self, text: bytes, role: str = "pgjobs:") -> None:
        """Drop the first answer that has this text, and all that come after it."""
        for link in self.linked(role):
            link.unheard = text

    def cut(self, role: str = "pgjobs:") -> None:
        for link in self.linked(role):
            link.close()

    def close(self) -> None:
        self.listener.close()
        for link in self.links:
            link.thawed.set()
            link.close()


def connect_to_server() -> socket.socket:
    database = test_settings.DATABASES["default"]
    host, port = database["HOST"] or "localhost", database["PORT"] or 5432
    if host.startswith("/"):
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(host) / f".s.PGSQL.{port}"))
        return server
    return socket.create_connection((host, port))
