"""Jobs on one topic and one store, of which one notifies, and what people got of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from deploy.lab.lab import Lab
from rules.notifications.planner import UPDATE_INTERVAL_MS
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_state import scrape
from tests.job.relay_job import THRESHOLDS
from tests.job.relay_process import RelayProcess
from tests.sinks.server import HttpDouble

FIRED, RESOLVED = ("no-leader", "firing"), ("no-leader", "resolved")
Sent: TypeAlias = list[tuple[str, str, str]]
"""Path, rule and reason of each notification."""


def reading_job(
    lab: Lab,
    relay: RelayProcess,
    webhook: HttpDouble,
    folder: Path,
    store: str,
    *,
    thresholds: Mapping[str, Any] = THRESHOLDS,
) -> ConfiguredJob:
    """Returns a job, not started yet, that reads the relay's topic and notifies at the path of its folder's name."""
    job = ConfiguredJob(folder=folder, bootstrap=(), name="test")
    job.write_config(
        clusters=[section("test", lab)],
        source="kafka",
        relay=relay.section,
        thresholds=thresholds,
        store=store,
        sinks=[{"webhook": {"url": f"{webhook.url}/{folder.name}", "repeat": "never", "name": "people"}}],
    )
    return job


def documents(webhook: HttpDouble, *, before: int = 0) -> Sequence[tuple[str, dict[str, Any]]]:
    """Returns path and document of each notification after the first `before`, without the late changes.

    On a busy machine an alert is older than a minute before the job's step concludes more about it: then people get a
    change of what it says, at the earliest UPDATE_INTERVAL_MS after its beginning.
    """
    found = [(request.path, json.loads(request.body)) for request in webhook.requests[before:]]
    return [(path, body) for path, body in found if body["reason"] != "changed" or not _is_late(body)]


def _is_late(body: dict[str, Any]) -> bool:
    began, sent = (datetime.fromisoformat(body[name]) for name in ("started_at", "sent_at"))
    return sent - began >= timedelta(milliseconds=UPDATE_INTERVAL_MS)


def assert_sent(webhook: HttpDouble, expected: Sent, *, before: int = 0, tried: str | None = None) -> None:
    """Asserts what was accepted about the leader after the first `before`; the path `tried` does not accept."""
    sent = [(path, body["alerts"][0]["rule"], body["reason"]) for path, body in documents(webhook, before=before)]
    assert [(path, rule, reason) for path, rule, reason in sent if rule == "no-leader" and path != tried] == expected


def assert_notifies(active: ConfiguredJob, *standby: ConfiguredJob) -> None:
    """Asserts which of these jobs notifies."""
    assert [notifies(job) for job in (active, *standby)] == [1, *(0 for _ in standby)]


def notifies(job: ConfiguredJob) -> float:
    """Returns the metric that says whether a job notifies."""
    return scrape(job)["notifies", ()]
