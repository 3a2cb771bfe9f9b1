"""Chromium without a window, driven through its debugging pipe."""

import json
import os
import shutil
import signal

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser():
    """Path of an installed browser, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Browser:
    """One tab of a browser: pages are opened, and JavaScript is evaluated in them.

    Parameters
    ----------
    folder : Path
        Folder for the profile of the browser.
    """

    def __init__(self, folder):
        import fcntl  # which Windows lacks

        program = find_browser()
        # The browser reads commands from file descriptor 3 and writes answers to 4.
        commands, self._commands = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in os.pipe())
        self._answers, answers = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in os.pipe())
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += ["--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"]
        options += ["--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
        dup = [(os.POSIX_SPAWN_DUP2, commands, 3), (os.POSIX_SPAWN_DUP2, answers, 4)]
        quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        self._pid = os.posix_spawn(
            program, [program, *options], os.environ, file_actions=[*dup, *quiet], setpgroup=0
        )
        os.close(commands), os.close(answers)
        self._buffer, self._last, self._events, self._session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """End the browser and its processes."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._commands), os.close(self._answers)

    def call(self, method, **parameters):
        """Result of a command; events that arrive before it are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    def _read(self):
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser ended"
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width):
        """Open a page at a width in CSS pixels; wait until it is loaded; return its errors."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self._events = []
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())
        return self.errors()

    def errors(self):
        """What scripts of the page have complained about since it was opened."""
        self.evaluate("new Promise(done => setTimeout(done, 0))")
        return [
            text for event in self._events if (text := _complaint(event["method"], event["params"]))
        ]

    def evaluate(self, script):
        """Value of a JavaScript expression; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")


def _complaint(method, parameters):
    if method == "Runtime.exceptionThrown":
        return parameters["exceptionDetails"]["text"]
    if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
        return parameters["entry"]["text"]
    if method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
        return str(parameters["args"])
    return None
