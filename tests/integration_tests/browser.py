"""A headless Chromium that tests drive over a pipe of the DevTools protocol, so nothing but the browser is needed."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
SHELL = shutil.which("bash") or ""
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe"
)
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Enter": 13,
    "Home": 36,
    "Tab": 9,
    " ": 32,
}
PATIENCE = 60.0  # seconds for one answer, on a machine that does much else


class Browser:
    """One page of a browser; `told` are the events that it has sent."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM
        asks, self._to_browser = os.pipe()
        self._from_browser, answers = os.pipe()
        # The browser reads commands from 3 and answers on 4. A shell gives it these, since no fork of a process with
        # threads may run Python; it is bash, as others take numbers of one digit alone.
        given = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (asks, answers)]
        self._process = subprocess.Popen(  # noqa: S603 - the browser found above
            [
                SHELL,
                "-c",
                f'exec "$@" 3<&{given[0]} 4>&{given[1]}',
                "browser",
                PROGRAM,
                *QUIET.split(),
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=given,
        )
        for end in (asks, answers, *given):
            os.close(end)
        self._number, self._session, self._rest = 0, "", b""
        self.told: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call(
            "Target.attachToTarget", targetId=target, flatten=True
        )["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to_browser)  # so that it ends by itself
        os.close(self._from_browser)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something, and wait for it."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        self._write(json.dumps(asked).encode() + b"\0")
        while True:
            told = json.loads(self._read())
            if told.get("id") != self._number:
                self.told.append(told)
                continue
            assert "error" not in told, f"{method}: {told['error']}"
            return dict(told["result"])

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to_browser, data) :]

    def _read(self) -> bytes:
        while b"\0" not in self._rest:
            assert select.select([self._from_browser], [], [], PATIENCE)[0], (
                "the browser does not answer"
            )
            more = os.read(self._from_browser, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return message

    def open(self, file: Path | str, *, width: int = 1280, dark: bool = False) -> float:
        """Open a file or an address, and forget what was told before; how many seconds it took."""
        address = file if isinstance(file, str) else file.as_uri()
        self.call("Page.navigate", url="about:blank")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.told.clear()
        began = time.perf_counter()
        self.call("Page.navigate", url=address)
        while self.run("location.href + document.readyState") != f"{address}complete":
            time.sleep(0.01)
        return time.perf_counter() - began

    def run(self, code: str) -> Any:
        """What an expression of JavaScript comes to in the page."""
        done = self.call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def inside(self, frame: str, code: str) -> Any:
        """What an expression comes to in a frame that is a target of its own."""
        outside, self._session = self._session, ""
        try:
            self._session = self.call(
                "Target.attachToTarget", targetId=frame, flatten=True
            )["sessionId"]
            return self.run(code)
        finally:
            self._session = outside

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            named = {
                "key": key,
                "code": key,
                "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper())),
            }
            text = (
                {"text": {"Enter": "\r"}.get(key, key)}
                if len(key) == 1 or key == "Enter"
                else {}
            )
            self.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Do something with the mouse: `mousePressed`, `mouseMoved`, `mouseReleased`, `mouseWheel`."""
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left",
            clickCount=1,
            **more,
        )

    def click(self, x: float, y: float) -> None:
        """Click somewhere."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def requests(self) -> list[str]:
        """What was asked of the network or the disk."""
        return [
            event["params"]["request"]["url"]
            for event in self.told
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors, warnings, dialogs and whatever else somebody should look at."""
        kinds = {
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Page.javascriptDialogOpening",
        }
        return [event for event in self.told if event["method"] in kinds]
