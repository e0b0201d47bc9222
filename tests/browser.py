"""A real browser for tests: Chromium without a window, spoken to through two pipes.

Debian: ``apt-get install chromium``. The protocol is that of its developer tools, one
JSON message after another, each ended by a zero byte.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0


class Page:
    """A page of the browser: what it asked for, what it complained of."""

    def __init__(self, commands, answers):
        self._commands, self._answers = commands, answers
        self._buffer, self._n, self._session = b"", 0, None
        self.requests, self.complaints, self._loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path):
        """Open a file, and wait until it is loaded."""
        self.requests.clear()
        self.complaints.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + _PATIENCE
        while not self._loaded:
            self._hear(self._receive(end))
        self.ask("1")  # messages of the load come before this answer

    def resize(self, width, height=800, scale=1):
        """Look through a window of this width, as a telephone has it."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def ask(self, expression):
        """Return the value of an expression of JavaScript."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def pdf(self):
        """Print the page; return the bytes of the PDF."""
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=True)["data"]
        )

    def screenshot(self):
        """Return a picture of the whole page, PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def call(self, method, **parameters):
        """Send a command, and return its result."""
        self._n += 1
        message = {"id": self._n, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _PATIENCE
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._n:
                assert "error" not in answer, answer
                return answer["result"]
            self._hear(answer)

    def _hear(self, event):
        method, told = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(told)[:500])
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])

    def _receive(self, end):
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            ready = left > 0 and select.select([self._answers], [], [], left)[0]
            data = os.read(self._answers, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def opened():
    """Start the browser, and end it and all that it started."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        pipes = f"3<&{read_commands} 4>&{write_answers}"
        words = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}/profile"]
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" {pipes}', "bash", *words],
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_commands)
        os.close(write_answers)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)
            os.close(answers)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for _ in range(50):  # what it started writes until it notices
                with contextlib.suppress(OSError):
                    shutil.rmtree(f"{folder}/profile")
                    break
                time.sleep(0.1)
