"""A real browser for tests: Chromium, over the pipe of its own protocol.

It needs no driver and no package. Tests are skipped where there is no Chromium.
"""

import base64
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120  # seconds
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"
    " --hide-scrollbars --no-first-run --disable-extensions --remote-debugging-pipe"
    # No tries to reach the network, which a test machine may not have.
    " --disable-background-networking --disable-component-update --disable-sync"
    " --disable-quic"
)

TRANSITIONS_END = """
Promise.allSettled(document.getAnimations().map(each => each.finished)).then(() => null)
"""


def chromium() -> str | None:
    """Return the path of the browser, or None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One process of the browser, with one page at a time."""

    def __init__(self, profile: Path):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        self.process = subprocess.Popen(
            [
                "bash",  # sh knows no number of two digits
                "-c",
                f'exec "$0" {OPTIONS} --user-data-dir="$1" about:blank '
                f"3<&{to_browser} 4>&{from_browser}",
                str(chromium()),
                str(profile),
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self.commands, False)
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.complaints: list[str] = []  # of the console
        self.events: list[str] = []

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    # The protocol

    def send(self, method: str, **parameters) -> dict[str, Any]:
        """Run a command and return its result."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            command["sessionId"] = self.session
        self.write(json.dumps(command).encode() + b"\0")
        while (message := self.read()).get("id") != self.number:
            self.note(message)
        assert "error" not in message, message
        return message["result"]

    def write(self, data: bytes) -> None:
        """Write a command, which may be longer than what a pipe holds."""
        while data:
            readable, writable, _ = self.wait_for([self.commands])
            if readable:  # or the browser, which waits for us, would not read
                self.receive()
            if writable:
                data = data[os.write(self.commands, data) :]

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            self.wait_for([])
            self.receive()
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def wait_for(self, sinks: list[int]) -> tuple[list[int], list[int], list[int]]:
        """Wait until there is something to read, or a sink takes something."""
        ready = select.select([self.answers], sinks, [], PATIENCE)
        assert any(ready), f"the browser has done nothing for {PATIENCE} s"
        return ready

    def receive(self) -> None:
        part = os.read(self.answers, 1 << 20)
        assert part, "the browser has ended"
        self.buffer += part

    def note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))

    # Pages

    def open(self, url: str, *, width: int, cookie: str) -> None:
        """Open a page in light colours, as a user who is logged in."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.complaints.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, 900)
        self.show(is_dark=False)
        self.send("Network.setCookie", name="sessionid", value=cookie, url=url)
        self.go_to(url)

    def show(self, is_dark: bool) -> None:
        """Let the user prefer dark colours, or light ones."""
        scheme = "dark" if is_dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.evaluate(TRANSITIONS_END)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=width < 768, **size)

    def choose(self, selector: str, value: str, event: str = "change") -> None:
        """Choose what leads to another page, and wait for that."""
        self.events.clear()
        field = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(
            f"{field}.value = {json.dumps(value)};"
            f"{field}.dispatchEvent(new Event('{event}', {{bubbles: true}})), null"
        )
        self.wait_for_page()

    def go_to(self, url: str) -> None:
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for_page()

    def click(self, selector: str) -> None:
        """Click what leads to another page, and wait for that."""
        self.events.clear()
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        self.wait_for_page()

    def wait_for_page(self) -> None:
        while "Page.loadEventFired" not in self.events:
            self.note(self.read())

    def leave(self) -> None:
        """Close the page."""
        self.send("Page.close")
        self.session = None

    def evaluate(self, script: str) -> Any:
        answer = self.send(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        taken = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))
