"""A real Prometheus (Debian's package) that scrapes a job and evaluates our alerting rules."""

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.addresses import Ports
from deploy.lab.child_process import ChildProcess
from tests.eventually import eventually

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "kraftwatch-*.rules.yml"
CONFIG = """
global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs: [{{job_name: kraftwatch, static_configs: [{{targets: ["{target}"]}}]}}]
"""


@dataclass(frozen=True)
class Prometheus:
    """Queries a Prometheus by its HTTP API."""

    port: int

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Returns the series of an expression now. Raises AssertionError if Prometheus refuses the expression."""
        answer = self._get("query", query=expr)
        assert answer["status"] == "success", answer
        series: list[dict[str, Any]] = answer["data"]["result"]
        return series

    def values(self, expr: str) -> list[float]:
        """Returns the value of each series of an expression."""
        return [float(one["value"][1]) for one in self.query(expr)]

    def firing(self) -> set[str]:
        """Returns the names of the firing alerts."""
        alerts = self._get("alerts")["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as page:
                answer: dict[str, Any] = json.load(page)
        except urllib.error.HTTPError as refused:
            body = refused.read().decode()
            # A starting Prometheus answers 503 and plain text.
            assert refused.code != 503, body
            answer = json.loads(body)
        return answer


@contextmanager
def running_prometheus(target: str, folder: Path) -> Iterator[Prometheus]:
    """Runs a Prometheus; yields it after it has scraped HOST:PORT a few times."""
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=RULES, target=target))
    ports = Ports()
    port = ports.claim()
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    log = folder / "log"
    process, prometheus = ChildProcess(command, log=log, supervised=True), Prometheus(port=port)

    def scraped() -> None:
        assert process.alive, log.read_text()
        with contextlib.suppress(OSError):
            assert prometheus.query('sum_over_time(up{job="kraftwatch"}[5m]) >= 4')
            return
        raise AssertionError(log.read_text() or "Prometheus does not answer yet")

    try:
        eventually(scraped, within_s=60)
        yield prometheus
    finally:
        process.kill()
