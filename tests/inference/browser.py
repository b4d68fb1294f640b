"""A headless Chromium that is spoken to over two pipes, without any driver."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """The browser of this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in a new profile.

    Args:
        folder: Where the profile lies.
    """

    def __init__(self, folder: Path, width: int = 1200, height: int = 1000):
        self.messages, self.number, self.rest = [], 0, b""
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()
        options = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"),
        ]
        # the browser reads from 3 and writes to 4
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "browser", find_browser(), *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self.reader, False)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, timeout: float = 120, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the DevTools protocol."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for found in self._receive():
                if found.get("id") == self.number:
                    if "error" in found:
                        raise RuntimeError(f"{method}: {found['error']}")
                    return found["result"]
                self.messages.append(found)
            if self.process.poll() is not None:
                raise RuntimeError(f"the browser ended with {self.process.returncode}")
            time.sleep(0.02)
        raise TimeoutError(method)

    def _receive(self) -> list[dict[str, Any]]:
        try:
            self.rest += os.read(self.reader, 1 << 20)
        except BlockingIOError:
            return []
        *whole, self.rest = self.rest.split(b"\0")
        return [json.loads(one) for one in whole]

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description"))
        return found["result"].get("value")

    def wait_for(self, script: str, timeout: float = 180) -> Any:
        """The first value of an expression that is true."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if value := self.run(script):
                return value
            time.sleep(0.2)
        raise TimeoutError(f"{script}\n{self.run('document.body.innerText')[:2000]}")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, as if by hand."""
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(
            f"""(() => {{
                const field = document.querySelector({json.dumps(selector)});
                const kind = Object.getPrototypeOf(field);
                field.focus();
                Object.getOwnPropertyDescriptor(kind, "value").set.call(field, {json.dumps(text)});
                field.dispatchEvent(new Event("input", {{bubbles: true}}));
            }})()"""
        )

    def click(self, selector: str) -> None:
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def upload(self, selector: str, path: Path) -> None:
        """Choose a file in a field for files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def text(self, selector: str = "body") -> str:
        return self.run(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''")

    def wait_for_text(self, selector: str, text: str) -> str:
        script = f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''"
        self.wait_for(f"({script}).includes({json.dumps(text)})")
        return self.text(selector)

    def screenshot(self, path: Path) -> bytes:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        content = base64.b64decode(found["data"])
        path.write_bytes(content)
        return content

    def requested(self) -> list[str]:
        """Addresses that the page asked for."""
        return [
            message["params"]["request"]["url"]
            for message in self.messages
            if message.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self.writer)
        os.close(self.reader)
