"""A headless Chromium over its debugging pipe: enough of the DevTools protocol to open, fill in, click and look."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium. `events` holds what the page did since it was opened."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._next = 0
        self.events: list[dict[str, Any]] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """One DevTools command in the page. Raises RuntimeError for what Chromium refuses."""
        return self._send(method, self._session, **params)

    def _send(self, method: str, session: str | None = None, /, **params: object) -> dict[str, Any]:
        self._next += 1
        message: dict[str, object] = {"id": self._next, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number = self._next
        while True:
            got = self._receive()
            if got.get("id") == number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                result: dict[str, Any] = got["result"]
                return result
            self.events.append(got)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("Chromium did not answer")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium has gone")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        got: dict[str, Any] = json.loads(message)
        return got

    def happened(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every event of this kind so far."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def authorize(self, value: str) -> None:
        """Send this Authorization header with every request."""
        self.call("Network.setExtraHTTPHeaders", headers={"Authorization": value})

    def open(self, url: str) -> None:
        """Go to an address and wait until it has loaded."""
        self._loading(lambda: self.call("Page.navigate", url=url))

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a person would, and wait for the page it leads to."""
        x, y = self._middle(selector)

        def press() -> None:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

        self._loading(press)

    def press(self, selector: str) -> None:
        """Click an element that leads nowhere."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _middle(self, selector: str) -> tuple[float, float]:
        box = self.value(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getClientRects()[0];"
            f" return [r.x + r.width / 2, r.y + r.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        return box[0], box[1]

    def type(self, selector: str, text: str) -> None:
        """Focus a field and type into it."""
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def key(self, name: str, code: int) -> None:
        """Press one key on the keyboard."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def value(self, expression: str) -> Any:
        """What an expression gives in the page, for looking only."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(str(got["exceptionDetails"]))
        return got["result"].get("value")

    def text(self, selector: str = "body") -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def picture(self, path: Path, *, width: int, height: int, dark: bool = False) -> None:
        """A picture of the page at a size, in a color scheme."""
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _loading(self, act: Any) -> None:
        before = len(self.happened("Page.loadEventFired"))
        act()
        while len(self.happened("Page.loadEventFired")) == before:
            self.events.append(self._receive())


@contextmanager
def chromium(path: str, profile: Path) -> Iterator[Browser]:
    """A browser of its own, with a profile that ends with the test."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()

    def place() -> None:
        # Chromium reads commands from descriptor 3 and answers on 4.
        low, high = os.dup(theirs_in), os.dup(theirs_out)
        os.dup2(low, 3)
        os.dup2(high, 4)

    process = subprocess.Popen(
        [
            path,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-default-browser-check",
            "--no-proxy-server",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={profile}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=place,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_in, ours_out)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        process.terminate()
        process.wait(timeout=30)


def wait_for(browser: Browser, expression: str) -> None:
    """Wait up to ten seconds until an expression holds in the page."""
    for _ in range(100):
        if browser.value(expression):
            return
        time.sleep(0.1)
    raise AssertionError(f"{expression}: {browser.text()[:500]}")
