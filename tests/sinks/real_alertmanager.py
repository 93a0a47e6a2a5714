"""Runs Debian's Alertmanager on loopback for tests."""

from pathlib import Path
from typing import Any, Self

import requests

from deploy.lab.addresses import Ports
from deploy.lab.child_process import ChildProcess
from tests.eventually import eventually

QUIET = """
route: {receiver: nobody, group_by: [cluster_id, incident], group_wait: 0s, group_interval: 1s}
receivers: [{name: nobody}]
"""


class RealAlertmanager:
    """A context manager that starts and ends it. A restart keeps the port; Alertmanager itself keeps no alerts."""

    def __init__(self, folder: Path, *, config: str = QUIET, web_config: str | None = None) -> None:
        self._folder = folder
        self._ports = Ports()
        self._port = self._ports.claim()
        self._process: ChildProcess | None = None
        self._scheme = "http" if web_config is None else "https"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alertmanager.yml").write_text(config)
        (folder / "web.yml").write_text(web_config or "{}")
        self.request_options: dict[str, Any] = {}
        """Arguments for `requests`."""

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        log = self._folder / "log"
        command = [
            "prometheus-alertmanager",
            f"--config.file={self._folder / 'alertmanager.yml'}",
            f"--web.config.file={self._folder / 'web.yml'}",
            f"--storage.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
        ]
        self._process = ChildProcess(command, log=log, supervised=True)
        eventually(lambda: self._ready(log), within_s=30)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def get(self, path: str, *, json_body: bool = True) -> Any:
        response = requests.get(self.url + path, timeout=60, **self.request_options)
        assert response.ok, response.text
        return response.json() if json_body else response.text

    def active_alerts(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Returns the active alerts by subject and severity."""
        return {(each["labels"]["subject"], each["labels"]["severity"]): each for each in self.get("/api/v2/alerts")}

    def _ready(self, log: Path) -> None:
        try:
            self.get("/-/ready", json_body=False)
        except requests.RequestException as error:
            raise AssertionError(f"{error}: {log.read_text()}") from error
