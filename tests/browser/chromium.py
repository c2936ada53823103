"""Drives Debian's headless Chromium over its debugging pipe: no packages of Python, no port."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """One browser with one page. Use as a context."""

    def __init__(self, scripts=True):
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        assert program, "there is no chromium-headless-shell: tests/browser/run installs it"
        self.profile = tempfile.TemporaryDirectory(prefix="shoal_browser_")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
                     "about:blank"]
        # The browser reads from file descriptor 3 and writes to 4.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", shell, "browser", *arguments],
                                        pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.unread = b""
        self.number = 0
        self.session = None
        self.trouble = []  # Exceptions of scripts and what the content security policy refused.
        self.requested = []  # URLs.
        (target,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile.name, ignore_errors=True)

    def _receive(self, deadline):
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self.read_end, 1 << 20)
            assert read, "the browser has ended"
            self.unread += read
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.trouble.append(parameters["exceptionDetails"])
        elif event.get("method") == "Log.entryAdded" and parameters["entry"].get("source") != "network":
            self.trouble.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def scheme(self, name):
        """"light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait_for(self, expression, timeout=60):
        deadline = time.monotonic() + timeout
        while not self.value(expression):
            assert time.monotonic() < deadline, f"not within {timeout} s: {expression}\n{self.text()}"
            time.sleep(0.1)

    def text(self):
        return self.value("document.body.innerText")

    def screenshot(self, path, above=None):
        """The whole page, or what is above the element that the selector names, as a PNG."""
        height = self.value("document.documentElement.scrollHeight" if above is None else
                            f"document.querySelector('{above}').getBoundingClientRect().top + scrollY")
        width = self.value("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taken = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(taken["data"]))
