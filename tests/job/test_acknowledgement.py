"""A real job: an alert is acknowledged by its API and by a command, and a killed job goes on with that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.lab.lab import Lab
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.sinks.server import HttpDouble

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}
TOKEN = "canary-token-5f2c"


def test_an_acknowledged_alert_is_not_repeated_and_a_killed_job_goes_on_with_that(
    lab: Lab, webhook: HttpDouble, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="prod")
    job.write_config(
        clusters=[section("prod", lab)],
        thresholds={"failure-tolerance": {"hold": 3600}, "alerts": {"clear": 1}, "quorum-shape": {"hold": 1}},
        listen_token_file=str(token),
        sinks=[{"webhook": {"url": f"{webhook.url}/people", "repeat": "3s"}}],
    )
    with job:
        eventually(lambda: assert_grows(webhook), within_s=120)
        (alert,) = api(job, "GET", "clusters/prod")["firing"]
        api(job, "POST", "acknowledgements", {"fingerprint": alert["fingerprint"], "by": "Ana"})
        eventually(lambda: assert_quiet(webhook), within_s=60)
        job.kill()
        job.start()
        eventually(lambda: assert_who(job, ["Ana"]), within_s=120)
        eventually(lambda: assert_quiet(webhook), within_s=60)

        assert kraftwatch("unack", "quorum-shape", "--config", job.file).exit_code == 0

        eventually(lambda: assert_grows(webhook), within_s=60)
        assert_who(job, [])


def api(job: ConfiguredJob, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = requests.request(method, f"http://{job.address}/api/{path}", json=body, headers=headers, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


def assert_who(job: ConfiguredJob, people: list[str]) -> None:
    assert [one["by"] for one in api(job, "GET", "acknowledgements")] == people


def assert_grows(webhook: HttpDouble) -> None:
    assert more_requests(webhook)


def assert_quiet(webhook: HttpDouble) -> None:
    assert not more_requests(webhook)


def more_requests(webhook: HttpDouble) -> bool:
    """Returns whether a notification arrives within three repeat intervals."""
    before = len(webhook.requests)
    grown: Callable[[], None] = lambda: _longer(webhook, before)  # noqa: E731
    try:
        eventually(grown, within_s=10)
    except AssertionError:
        return False
    return True


def _longer(webhook: HttpDouble, than: int) -> None:
    assert len(webhook.requests) > than
