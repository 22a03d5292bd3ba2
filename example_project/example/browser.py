"""A browser for the headless demo: pages, forms, uploads and cookies over HTTP."""

import json
import time
import urllib.error
import urllib.request
import uuid
from http.cookiejar import CookieJar
from typing import NamedTuple

TIMEOUT_SECONDS = 30


class Answer(NamedTuple):
    """What the web server said, and how long it took."""

    status: int
    content: bytes
    seconds: float

    def json(self):
        """Return the content as data."""
        return json.loads(self.content)


class Browser:
    """Speak with one web server and keep its cookies."""

    def __init__(self, address):
        self.address = address
        self.cookies = CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # The server is on this machine.
            urllib.request.HTTPCookieProcessor(self.cookies),
        )

    def get(self, path) -> Answer:
        """Load a page."""
        return self._open(urllib.request.Request(self.address + path))

    def press(self, path) -> Answer:
        """Send an empty form, as a button does."""
        return self._post(path, b"", "application/x-www-form-urlencoded")

    def upload(self, path, name, content) -> Answer:
        """Send a form with one file."""
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return self._post(path, body, f"multipart/form-data; boundary={boundary}")

    def _post(self, path, body, content_type):
        headers = {
            "Accept": "application/json",
            "Content-Type": content_type,
            "X-CSRFToken": self._csrf_token(),
        }
        return self._open(urllib.request.Request(self.address + path, body, headers))

    def _csrf_token(self):
        return next((c.value for c in self.cookies if c.name == "csrftoken"), "")

    def _open(self, request):
        started = time.perf_counter()
        try:
            with self.opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:  # An answer, too.
            with error:
                status, content = error.code, error.read()
        return Answer(status, content, time.perf_counter() - started)
