"""A headless Chromium: what it shows, requests and logs."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from deploy.lab.addresses import Ports

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    # A foreign host name that resolves to this host.
    "--host-resolver-rules=MAP *.test 127.0.0.1",
)
DESKTOP = (1280, 900)
PHONE = (360, 740)


class Browser:
    """One tab."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver

    def open(self, url: str, *, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        """Opens an address on a screen of this size; discards earlier requests and console messages."""
        mobile = size[0] < 600
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": mobile}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self._driver.get("about:blank")
        self._log("browser")
        self._log("performance")
        self._driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Returns the result of a JavaScript function body."""
        return self._driver.execute_script(script, *arguments)

    def text(self, selector: str = "main") -> str:
        """Returns the visible text."""
        text: str = self.run("return document.querySelector(arguments[0]).innerText", selector)
        return text

    @property
    def title(self) -> str:
        return self._driver.title

    @property
    def url(self) -> str:
        return self._driver.current_url

    def console_messages(self) -> list[str]:
        """Returns the console messages since the page was opened: script errors and violations of the policy."""
        return [str(entry["message"]) for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Returns every requested address since the page was opened."""
        return [sent["request"]["url"] for sent in self._events("Network.requestWillBeSent")]

    def screenshot(self, path: Path, *, begin: str = "body", height: int = 10_000) -> None:
        """Writes a PNG or WebP, by the suffix: from the element `begin`, at most `height` pixels."""
        top = "document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"
        width, whole, top_y = self.run(f"return [innerWidth, document.documentElement.scrollHeight, {top}]", begin)
        top_y = max(0, top_y - 24)
        clip = {"x": 0, "y": top_y, "width": width, "height": min(height, whole - top_y), "scale": 1}
        wanted = {"format": path.suffix[1:], "clip": clip, "captureBeyondViewport": True}
        shot = self._driver.execute_cdp_cmd("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _log(self, log: str) -> Sequence[Mapping[str, Any]]:
        entries: Sequence[Mapping[str, Any]] = self._driver.get_log(log)  # type: ignore[no-untyped-call]
        return entries

    def _events(self, method: str) -> Iterator[Mapping[str, Any]]:
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == method and not message["params"].get("documentURL", "").startswith("about:"):
                yield message["params"]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Runs Debian's Chromium and its driver with their own profile."""
    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    ports = Ports()
    driver = Chrome(options=options, service=Service("/usr/bin/chromedriver", port=ports.claim()))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
