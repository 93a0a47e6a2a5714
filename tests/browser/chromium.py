"""A headless Chromium: what it shows, requests and logs."""

import base64
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from deploy.lab.addresses import Ports

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
DESKTOP = (1280, 900)
PHONE = (360, 740)


class Browser(Chrome):
    """One tab of Debian's Chromium, with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        options = ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        super().__init__(options, Service("/usr/bin/chromedriver", port=Ports().claim()))

    def open(self, url: str, *, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        """Opens an address on a screen of this size; discards earlier console messages."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.get("about:blank")
        self.console_messages()
        self.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Returns the result of a JavaScript function body."""
        return self.execute_script(script, *arguments)

    def text(self, selector: str = "main") -> str:
        """Returns the visible text."""
        text: str = self.run("return document.querySelector(arguments[0]).innerText", selector)
        return text

    def console_messages(self) -> list[str]:
        """Returns the newest messages of the console: script errors and violations of the policy."""
        return [str(entry["message"]) for entry in self.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Returns what the page requested besides itself; what its policy forbids is in the console."""
        found: list[str] = self.run("return performance.getEntriesByType('resource').map((each) => each.name)")
        return found

    def screenshot(self, path: Path, *, begin: str = "body", height: int = 10_000) -> None:
        """Writes a PNG or WebP, by the suffix: from the element `begin`, at most `height` pixels."""
        top = "document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"
        width, whole, top_y = self.run(f"return [innerWidth, document.documentElement.scrollHeight, {top}]", begin)
        top_y = max(0, top_y - 24)
        clip = {"x": 0, "y": top_y, "width": width, "height": min(height, whole - top_y), "scale": 1}
        wanted = {"format": path.suffix[1:], "clip": clip, "captureBeyondViewport": True}
        shot = self.execute_cdp_cmd("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(shot["data"]))
