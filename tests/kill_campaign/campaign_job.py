"""CampaignJob: the real job of a campaign, started, killed and started again as a supervisor does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from connectors.delivery.ledger import stored_alerts
from connectors.store.alert_store import AlertStore, DeliveryStatus
from connectors.store.tables import job_database
from rules.alert import Alert
from streaming.pipeline.checkpoint import Checkpoint
from tests.kill_campaign import job_processes
from tests.kill_campaign.kill_point import Role
from tests.kill_campaign.sink_services import PAGERDUTY, SLACK

END_S = 90.0
"""Within this time the job must end after a process that it needs was killed."""


class CampaignJob:
    """One job in one folder."""

    def __init__(self, folder: Path, config: Mapping[str, Any], *, repeat: str) -> None:
        """Writes the configuration: the given keys, the checkpoint and three sinks.

        Args:
            folder: the folder of the campaign, which exists.
            config: clusters and thresholds.
            repeat: the repeat interval of the sinks for people.
        """
        self.folder = folder
        self.checkpoint = Checkpoint(folder=folder / "checkpoint")
        self.jsonl = folder / "alerts.jsonl"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._config = folder / "kraftwatch.yaml"
        sinks = [
            {"jsonl": {"path": str(self.jsonl), "name": "record"}},
            {"pagerduty": {"routing_key": "0123456789abcdef0123456789abcdef", "name": PAGERDUTY, "repeat": repeat}},
            {"slack": {"token": "xoxb-0123456789", "channel": "#kafka", "name": SLACK, "repeat": repeat}},
        ]
        fixed = {"checkpoint": str(self.checkpoint.folder), "sinks": sinks, "audit_every": 0}
        self._config.write_text(yaml.safe_dump({**config, **fixed}), encoding="utf-8")

    @property
    def log(self) -> Path:
        """stdout and stderr of all starts."""
        return self.folder / "run.log"

    def start(self) -> None:
        """Starts the job and waits for nothing."""
        self.starts += 1
        environment = {**os.environ, **job_processes.environment(self.folder)}
        command = [sys.executable, "-m", "streaming", "run", "--config", str(self._config)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code of the newest start; None while it runs. A negative code is a signal."""
        assert self._process is not None
        return self._process.poll()

    def pids(self, role: Role) -> list[int]:
        """Returns the running processes of a role."""
        return job_processes.with_role(self.folder, role)

    def batches(self) -> int:
        """Returns the number of the newest committed batch; -1 before the first."""
        commits = (self.checkpoint.spark / "commits").glob("[0-9]*")
        return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)

    def alerts(self) -> Sequence[Alert]:
        """Returns the transitions of the ledger, oldest first."""
        return stored_alerts(job_database(self.checkpoint.folder, read_only=True))

    def pending(self) -> Mapping[str, int]:
        """Returns how many transitions are pending, by sink."""
        sinks = AlertStore(job_database(self.checkpoint.folder, read_only=True)).content()[1]
        return {
            sink: sum(each is DeliveryStatus.PENDING for each in sinks[sink].status.values())
            for sink in ("record", PAGERDUTY, SLACK)
        }

    def reported_damage(self) -> list[str]:
        """Returns what is damaged: a kill damages nothing."""
        damage = self.checkpoint.database_damage()
        return [] if damage is None else [damage]

    def stop(self) -> int:
        """Ends the job with SIGTERM and returns its exit code; kills it if it does not end."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(END_S)
        job_processes.kill_group(self.folder)
        return self._process.wait()

    def kill_unless_ended(self) -> None:
        """Kills a job that still runs, because the campaign itself has failed."""
        if self._process is not None and self._process.poll() is None:
            job_processes.kill_group(self.folder)
            self._process.wait()

    def newest_output(self) -> str:
        """Returns the end of the job's output and of its log."""
        logs = (self.log, self.checkpoint.logs / "driver.log", self.checkpoint.logs / "spark.err")
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-700:]}" for log in logs if log.exists())

    def await_leftovers(self, within_s: float) -> list[int]:
        """Waits until no process of an earlier start is left; returns those that are left after the timeout."""
        deadline = time.monotonic() + within_s
        while (left := job_processes.pids(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left
