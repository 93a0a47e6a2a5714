"""A job whose clusters come from a relay."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess

KEPT = {
    *("cluster.json", "source.json", "lock"),
    *(f"kraftwatch.db{suffix}" for suffix in ("", "-wal", "-shm")),
}
"""What a job keeps in its work_dir."""


THRESHOLDS = {
    # Twice its default: an election takes long on a busy machine.
    "alerts": {"clear": 3},
    "no-leader": {"hold": 10},
    "voter-disk-replaced": {"hold": 5},
    "failure-tolerance": {"hold": 3_600},
    "voter-lagging": {"hold": 3_600},
    "stale-voter-endpoint": {"hold": 3_600},
    "epoch-churn": {"hold": 3_600},
}


def reading_job(
    relay: RelayProcess,
    lab: Lab,
    folder: Path,
    *,
    thresholds: Mapping[str, Any] = THRESHOLDS,
    **keys: Any,
) -> ConfiguredJob:
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
    job.write_config(
        clusters=[section("test", lab)],
        source="kafka",
        relay=relay.section,
        thresholds=thresholds,
        **keys,
    )
    return job


def assert_fired_and_resolved_once(job: JobProcess) -> None:
    """The end of no-leader may find a voter that does not fetch yet: that is an alert of another rule.

    On a busy machine no-leader lasts for more than a minute, and may conclude something else meanwhile: it is the same
    alert.
    """
    found = [(alert.state, alert.started_at) for alert in job.alerts() if alert.rule == "no-leader"]
    assert [state for state, _ in dict.fromkeys(found)] == ["firing", "resolved"]


def delete_logs(work: Path) -> None:
    """Deletes a killed job's logs. Its Python workers end a moment later, and delete their sockets there."""

    def deleted() -> None:
        shutil.rmtree(work / "log", ignore_errors=True)
        assert not (work / "log").exists()

    eventually(deleted, within_s=30)
