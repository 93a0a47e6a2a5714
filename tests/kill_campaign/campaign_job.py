"""The real job as a supervisor runs it: started, killed and started again; and that of a kill campaign."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.store.alert_store import AlertRecord, AlertStore, DeliveryStatus, SinkRecord
from connectors.store.tables import job_database
from tests.bench.job_cost import newest_batch
from tests.job.configured_job import ConfiguredJob
from tests.kill_campaign import job_processes
from tests.kill_campaign.kill_point import Role
from tests.kill_campaign.sink_services import PAGERDUTY, SLACK, people_sinks

END_S = 90.0
"""Within this time the job must end after a process that it needs was killed."""


@dataclass(kw_only=True)
class SupervisedJob(ConfiguredJob):
    """A job that is started again as a supervisor does: nothing waits for a start, and how it ended is known."""

    starts: int = 0

    def start(self) -> None:
        """Starts the job and waits for nothing."""
        self.starts += 1
        super().start()

    def _ready(self) -> bool:
        return True

    @property
    def exit_code(self) -> int | None:
        """The exit code of the newest start; None while it runs. A negative code is a signal."""
        return None if self._process is None else self._process.poll()

    @property
    def marker(self) -> Path:
        """The folder by which its processes are found."""
        return Path(self.environment[job_processes.VARIABLE])

    def pids(self, role: Role) -> list[int]:
        """Returns the running processes of a role."""
        return job_processes.with_role(self.marker, role)


@dataclass(kw_only=True)
class CampaignJob(SupervisedJob):
    """A job in the folder of the campaign, with three sinks."""

    def configure(self, config: Mapping[str, Any], *, repeat: str) -> None:
        """Writes these keys and the sinks; `repeat` is the repeat interval of the sinks for people."""
        record = {"jsonl": {"path": str(self.jsonl), "name": "record"}}
        self.write_config(**config, sinks=[record, *people_sinks(repeat=repeat)], audit_every=0)

    def batches(self) -> int:
        """Returns the number of the newest committed batch; -1 before the first."""
        return newest_batch(self)

    def content(self) -> tuple[Sequence[AlertRecord], Mapping[str, SinkRecord]]:
        """Returns the transitions of the ledger, oldest first, and their status for each sink."""
        return AlertStore(job_database(self.checkpoint, read_only=True)).content()

    def pending(self) -> Mapping[str, int]:
        """Returns how many transitions are pending, by sink."""
        stored = {name: Counter(each.status.values()) for name, each in self.content()[1].items()}
        return {sink: stored[sink][DeliveryStatus.PENDING] for sink in ("record", PAGERDUTY, SLACK)}

    def ended(self) -> int:
        """Ends the job with SIGTERM and returns its exit code; kills it if it does not end."""
        process = self._process
        assert process is not None
        self.stop()
        return int(process.returncode)

    def await_leftovers(self, within_s: float) -> list[int]:
        """Waits until no process of an earlier start is left; returns those that are left after the timeout."""
        deadline = time.monotonic() + within_s
        while (left := self.pids(Role.GROUP)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left
