"""Chromium for tests, driven by its own protocol over a pipe: no package needed, skipped where there is no browser."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
_SECONDS = 60.0
_KEYS = {"Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, "Enter": 13}


class Browser:
    """One page of a browser. `errors` and `requests` are what happened since the page was opened."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.out, self.into, self.buffer, self.number = to_browser, from_browser, b"", 0
        self.session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        os.write(self.out, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        """Wait for the next message; keep what matters of events."""
        until = time.monotonic() + _SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            self.buffer += os.read(self.into, 1 << 20)
        raw, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        given = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self.loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(
                    given["exceptionDetails"].get("text", "") + str(given["exceptionDetails"].get("exception"))
                )
            case "Runtime.consoleAPICalled" if given["type"] in ("error", "warning", "assert"):
                self.errors.append(str(given["args"]))
            case "Log.entryAdded" if given["entry"]["level"] in ("error", "warning"):
                self.errors.append(given["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.errors.append(f"dialog: {given['message']}")
        return message

    def open(
        self, path: Path, width: int = 1400, height: int = 900, *, theme: str = "light", media: str = "screen"
    ) -> None:
        """Open a file at a size and in a theme, and wait until it has loaded."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self._go("about:blank")
        self.errors, self.requests = [], []
        self._go(path.resolve().as_uri())

    def _go(self, address: str) -> None:
        self.loaded = False
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self._next()

    def value(self, script: str) -> Any:
        """Return what an expression is on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key."""
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key])

    def hover(self, selector: str) -> None:
        """Move the mouse over an element."""
        script = (
            "(async () => { const e = document.querySelector("
            + json.dumps(selector)
            + "); e.scrollIntoView({block: 'center'}); "
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame); "
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        x, y = self.value(script)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, clip: tuple[float, float, float, float] | None = None) -> None:
        """Write a picture of what is in view, or of a part of the page: left, top, width, height."""
        part = None if clip is None else dict(zip(("x", "y", "width", "height"), clip, strict=True)) | {"scale": 1}
        given = {} if part is None else {"clip": part}
        made = self.call("Page.captureScreenshot", captureBeyondViewport=clip is not None, **given)
        path.write_bytes(base64.b64decode(made["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser without a window, and end it."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        reads, to_browser = os.pipe()
        from_browser, writes = os.pipe()
        flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --remote-debugging-pipe"
        command = f'exec "$0" {flags} --user-data-dir="$1" 3<&{reads} 4>&{writes}'
        process = subprocess.Popen(
            ["bash", "-c", command, PROGRAM, folder], pass_fds=(reads, writes), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        try:
            page = Browser(to_browser, from_browser)
            yield page
            page.session = None
            page.call("Browser.close")
        finally:
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
