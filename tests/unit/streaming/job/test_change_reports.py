"""What is passed to the sinks that report changes: the present state, while this job notifies."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from connectors.process.wall_clock import wall_ms
from connectors.sinks.console import ConsoleSection
from connectors.sinks.sink import DeliveryOptions, KnownState, Outcome
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Offset
from streaming.config import Config, load
from streaming.job.change_reports import ChangeReports, cluster_facts, configuration_digest
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus, StatusSource
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.situation.commands import situation
from tests.unit.streaming.job.running_configuration import running_with


def status() -> ClusterStatus:
    return job_cluster_status(Facts(situation()), thresholds_for({}))


@dataclass
class Service:
    """A sink that takes states, and fails so many times."""

    failures: int = 0
    received: list[Sequence[KnownState]] = field(default_factory=list)
    options: DeliveryOptions = field(default_factory=lambda: ConsoleSection().options)

    def send(self, *_: object, **__: object) -> Sequence[Outcome]:
        return ()

    def report(self, states: Sequence[KnownState], *, deadline_s: float) -> str | None:
        self.received.append(states)
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        return None


@dataclass
class GivenRole:
    """Whether this job notifies."""

    notifies: bool = False


def config(folder: Path, **keys: object) -> Config:
    file = folder / "kraftwatch.yaml"
    file.write_text(yaml.safe_dump({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], **keys}))
    return load(file)


def test_only_the_job_that_notifies_passes_the_state_and_a_failure_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, service, role = StatusStore(["prod", "silent"]), Service(failures=2), GivenRole()
    store.put_status(replace(status(), cluster="prod"), at_ms=wall_ms())
    given = config(tmp_path)
    reports = ChangeReports(store, running_with(given, service), role, every_s=0.01)
    with reports:
        assert service.received == []
        role.notifies = True
        eventually(lambda: len(service.received) == 3, within_s=20)
        store.put_status(replace(status(), cluster="prod", metadata_version=29), at_ms=wall_ms())
        eventually(lambda: len(service.received) == 4, within_s=20)
        # Another job may have reported something else in between.
        role.notifies = False
        eventually(lambda: not reports._reported, within_s=20)
        role.notifies = True
        eventually(lambda: len(service.received) == 5, within_s=20)

    # Both failed calls are repeated; then only what has changed is passed, and nothing while nothing changes.
    assert [[one.of for one in states] for states in service.received] == [
        *([["kraftwatch", "prod"]] * 3),
        ["prod"],
        ["kraftwatch", "prod"],
    ]
    job, cluster = service.received[0]
    assert (job.of, cluster.of) == ("kraftwatch", "prod")
    assert job.facts["configuration"] == configuration_digest(given)
    assert cluster.facts == cluster_facts(status())
    assert service.received[3][0].facts["metadata.version"] == "29"
    assert len([one for one in caplog.records if "changes cannot be reported" in one.getMessage()]) == 1


def test_facts_are_the_committed_voters_and_the_finalized_features() -> None:
    facts = cluster_facts(status())

    assert facts["voters"].count("; ") == 2
    assert {"metadata.version", "kraft.version"} <= facts.keys()


@pytest.mark.parametrize(
    "changed", [{"source": StatusSource.NONE}, {"last_offset": Offset(5), "high_watermark": Offset(50_000)}]
)
def test_an_old_state_is_no_fact(changed: dict[str, object]) -> None:
    """A log that is read from its beginning shows all former voter sets."""
    assert cluster_facts(replace(status(), **changed)) == {}  # type: ignore[arg-type]


def test_the_digest_is_of_what_is_evaluated_and_not_of_where_the_job_runs(tmp_path: Path) -> None:
    first = configuration_digest(config(tmp_path))

    assert configuration_digest(config(tmp_path, checkpoint="elsewhere", listen="127.0.0.1:1")) == first
    assert configuration_digest(config(tmp_path, thresholds={"no-leader": {"hold": "9s"}})) != first
