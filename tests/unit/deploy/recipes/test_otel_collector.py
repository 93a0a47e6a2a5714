"""docs/metrics.md: a real OpenTelemetry collector, configured as printed there, passes on what /metrics shows.

`make otelcol` builds the pinned collector; without it these tests are skipped.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from connectors.settings.secret import Secret
from deploy.lab.addresses import Ports
from deploy.lab.child_process import ChildProcess
from streaming.config import checked
from streaming.metrics.job_metrics import job_registry
from streaming.metrics.metric_spec import metrics_endpoint
from streaming.metrics.otlp import OtlpExport
from streaming.web.page_access import PageAccess
from streaming.web.server import Server
from tests.eventually import eventually
from tests.sinks.server import HttpDouble, HttpReply, serving
from tests.situation.commands import situation
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.streaming.metrics.exposition import MetricsFixture, Samples
from tests.unit.streaming.metrics.otlp_metrics import (
    as_samples,
    attributes,
    ended,
    metrics,
    received,
    without_empty_labels,
)

_BUILT = Path(sys.executable).with_name("otelcol")
OTELCOL = str(_BUILT) if _BUILT.exists() else shutil.which("otelcol")
pytestmark = pytest.mark.skipif(OTELCOL is None, reason="otelcol is missing: `make otelcol` builds it")

PAGE = Path(__file__).parents[4] / "docs" / "metrics.md"
SCRAPE, SEND, RECEIVE = (
    block
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text().partition("## OpenTelemetry")[2], re.M | re.S)
)
NO_METRICS_OF_ITS_OWN = "yaml:service::telemetry::metrics::level: none"


@pytest.fixture
def backend() -> Iterator[HttpDouble]:
    """What the collector sends to."""
    with serving() as backend:
        backend.behave = lambda _: HttpReply(headers={"Content-Type": "application/x-protobuf"})
        yield backend


@pytest.fixture
def running(tmp_path: Path) -> MetricsFixture:
    return MetricsFixture(tmp_path).batch(situation(), took_s=0.2).batch(situation(), took_s=7)


def replaced(recipe: str, values: Mapping[str, str]) -> str:
    """Returns a recipe with other values than those printed."""
    for printed, value in values.items():
        assert recipe.count(printed) == 1, printed
        recipe = recipe.replace(printed, value)
    return recipe


@contextmanager
def collector(recipe: str, folder: Path) -> Iterator[Path]:
    """Runs a collector; yields its log."""
    config, log = folder / "collector.yaml", folder / "collector.log"
    config.write_text(recipe)
    command = [str(OTELCOL), f"--config={config}", f"--config={NO_METRICS_OF_ITS_OWN}"]
    process = ChildProcess(command, log=log, supervised=True)

    def ready() -> None:
        assert process.alive, log.read_text()
        assert "Everything is ready" in log.read_text()

    try:
        eventually(ready, within_s=60)
        yield log
    finally:
        process.kill()


def passed_on(backend: HttpDouble) -> Samples:
    """Returns the newest samples of kraftwatch that the collector has passed on."""
    found = metrics(received(backend)[-1]) if backend.requests else {}
    return as_samples({name: one for name, one in found.items() if name.startswith("kraftwatch_")})


def all_ended(backend: HttpDouble) -> set[str]:
    """Returns the metrics with a series that has ended, in any message."""
    return {name for one in received(backend) for name in ended(metrics(one))}


def check(running: MetricsFixture, backend: HttpDouble) -> set[str]:
    """Waits until the collector passes on what the page shows; returns the metrics that have ended a minute later."""
    eventually(lambda: passed_on(backend) == without_empty_labels(running.samples()), within_s=60)
    (resource,) = received(backend)[-1].resource_metrics
    assert attributes(resource.resource)["service.name"] == "kraftwatch"
    assert all_ended(backend) == set()

    running.now_ms += 61_000
    eventually(lambda: passed_on(backend) == without_empty_labels(running.samples()), within_s=60)
    return all_ended(backend)


def test_both_ways_pass_on_what_the_page_shows(running: MetricsFixture, backend: HttpDouble, tmp_path: Path) -> None:
    port, endpoint = Ports().claim(), {"https://backend.example:4318": backend.url}
    exported = job_registry(running.sources)

    with ExitStack() as stack:
        recipe = replaced(RECEIVE, {"0.0.0.0:4318": f"127.0.0.1:{port}", **endpoint})
        stack.enter_context(collector(recipe, tmp_path))
        values = {"collector.example:4318": f"127.0.0.1:{port}", "60s": "0.5s"}
        keys = yaml.safe_load(replaced(SEND, values))
        config = checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], **keys}, "docs/metrics.md")
        stack.enter_context(OtlpExport(exported, config.otlp_target, service="kraftwatch"))
        sent = check(running, backend)

    backend.requests.clear()
    running.now_ms -= 61_000
    trusted, token = authority(tmp_path / "ca"), tmp_path / "token"
    token.write_text("do-not-print-me\n")
    access = PageAccess(certfile=Path(trusted.issue("page")), token=Secret(file=token))
    with ExitStack() as stack:
        server = stack.enter_context(Server(("127.0.0.1", 0), [metrics_endpoint(exported)], access=access))
        values = {
            "kraftwatch.example:9847": f"127.0.0.1:{server.port}",
            "/etc/otelcol/kraftwatch-ca.pem": trusted.file,
            "/etc/otelcol/kraftwatch-token": str(token),
            "15s": "500ms",
            **endpoint,
        }
        stack.enter_context(collector(replaced(SCRAPE, values), tmp_path))
        scraped = check(running, backend)

    assert len(sent) > 20
    assert scraped - sent == set()
    assert sent - scraped == set()
