"""The page of a real job on a real quorum, and the report of what it recorded, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.lab.lab import Lab
from streaming.cli import app
from streaming.demo.job_process import JobProcess
from tests.browser.chromium import Browser
from tests.eventually import eventually

pytestmark = [
    pytest.mark.debian("chromium", "chromium-driver"),
    pytest.mark.lab,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(900),
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path / "lab", brokers=1) as lab:
        yield lab


def test_stopped_controller_is_shown_live_and_in_the_report(tmp_path: Path, lab: Lab, browser: Browser) -> None:
    settings = {"failure-tolerance.hold": 3.0, "failure-tolerance.clear": 2.0}
    with JobProcess(folder=tmp_path / "watch", name="test", bootstrap=lab.bootstrap, settings=settings) as job:
        browser.open(f"http://{job.address}/clusters/test?span=15m")
        eventually(lambda: browser.title.startswith("healthy"), within_s=60)
        browser.run("window.notReloaded = true")
        stopped = lab.controllers[0]

        lab.stop(stopped)
        eventually(lambda: browser.title.startswith("warning"), within_s=60)
        # On a slow machine the alert may first report the voter as lagging.
        eventually(lambda: f"Voter {stopped} is not fetching" in browser.text(), within_s=60)
        eventually(lambda: "Not fetching" in browser.text(".replicas"), within_s=60)
        eventually(lambda: "Down" in browser.text(".endpoints"), within_s=60)

        lab.start(stopped)
        eventually(lambda: browser.title.startswith("healthy"), within_s=60)
        eventually(lambda: "Resolved" in browser.text(), within_s=60)
        assert browser.run("return window.notReloaded")
        assert browser.console_messages() == []
        assert len(browser.hosts()) == 1

    place = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", "--checkpoint", str(job.checkpoint), "--out", str(place)])
    assert done.exit_code == 0, done.output
    browser.open(place.as_uri())
    assert any(f"Voter {stopped} is {how}" in browser.text() for how in ("not fetching", "lagging"))
    assert f"controller {stopped} started" in browser.run("return document.getElementById('as-list').textContent")
    assert browser.requests() == [place.as_uri()]
    assert browser.console_messages() == []
