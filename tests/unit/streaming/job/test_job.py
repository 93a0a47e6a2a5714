"""The parts of a job, started without Spark: it reads what relays sent."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.store.tables import job_database
from rules.firing import Firing
from rules.model.identifiers import Millis
from streaming.config import Config
from streaming.job import job as module
from streaming.job.cluster_identity import ClusterIds
from streaming.job.dependencies import Dependencies
from streaming.job.job import Job, started
from streaming.job.start_up import StartUp
from streaming.pipeline.checkpoint import Checkpoint
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.job.running_configuration import effective

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def config(*names: str, **keys: Any) -> Config:
    relay = {"bootstrap": ["k:9092"], "topic": "observations"}
    clusters = [{"name": name, "bootstrap": [f"{name}:9093"]} for name in names]
    return Config.model_validate({"clusters": clusters, "source": "kafka", "relay": relay, **keys})


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    database = job_database(tmp_path)
    database.create()
    start_up = StartUp(effective=effective(config("prod")), set_aside=None, waiting=["new"])
    with ExitStack() as stack:
        yield started(start_up, Checkpoint(folder=tmp_path), database, Dependencies(print), SignalFlag(), stack)


def test_a_job_that_starts_notifies_before_its_first_batch_and_counts_what_fires(job: Job) -> None:
    fired = alert(cluster="prod", observed_at_ms=wall_ms())
    job.notifying.put(Firing(cluster="prod", evaluated_ms=Millis(wall_ms()), alerts=(fired,)))
    job.notify()

    assert (job.is_starting(), job.health().is_alive, job.is_healthy()) == (True, True, True)
    assert job.batch_stats.firing == [fired]


def test_a_changed_configuration_is_in_effect_in_each_part(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = config(
        "prod",
        "test",
        maintenance=[
            {"days": DAYS, "from": begin, "for": "12h", "clusters": ["test"], "comment": "upgrade"}
            for begin in ("00:00", "12:00")
        ],
        thresholds={"monitor-degraded": {"hold": "7s"}},
        sinks=[{"console": {"name": "terminal"}}],
    )
    answered = ClusterIds(ids={"prod": "id of prod", "test": "id of test"}, unavailable={})
    monkeypatch.setattr(module, "identify_in_topics", lambda *_: answered)
    before = job.running.thresholds["monitor-degraded"].ms("hold")

    assert sorted(job.change(changed)) == ["clusters", "maintenance", "sinks", "thresholds"]

    assert job.store.configured == ("prod", "test"), "no cluster waits any more"
    assert job.running.topics == {"prod": "observations", "test": "observations"}
    assert (before, job.running.thresholds["monitor-degraded"].ms("hold")) == (60_000, 7_000)
    assert [one.name for one in job.notifying.sink_states] == ["terminal"]
    assert [one.cluster for one in job.silences(wall_ms())] == ["test"]
    settings = job.running.settings_of("test")
    assert settings is not None
    assert settings.cluster_id == "id of test"
