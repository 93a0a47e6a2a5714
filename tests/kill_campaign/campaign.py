"""Campaign: the real job with its sinks, killed by plan, and what every half of a campaign checks at the end."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from deploy.lab import LabError
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.pipeline.checkpoint import Checkpoint
from tests.kill_campaign import delivery_log, job_processes
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.campaign_result import CampaignResult, Comparison, Report
from tests.kill_campaign.delivery_check import check_file, check_people_sinks
from tests.kill_campaign.instrumentation import Settings, wall_ms
from tests.kill_campaign.kill_execution import CampaignStuckError, KillExecution
from tests.kill_campaign.kill_plan import PlannedKill
from tests.kill_campaign.sink_services import Availability, SinkServices

COMPLETE_S = 240.0
"""Within this time everything must be delivered after the last kill."""
AVAILABILITY = (*[Availability.UP] * 3, Availability.SLOW, Availability.DOWN)
SILENCE_SHARE = 0.35
SERVICE_NAMES = ("PagerDuty", "Slack")
"""As the names of kill points contain them."""


class Campaign(ABC):
    """One half."""

    mode: str
    repeat: str
    """The repeat interval of the sinks for people."""
    reach_s: float
    """A point that a ready job does not reach within this time is replaced by a random moment."""
    settings: Settings

    def __init__(self, folder: Path, random: Random, kills: Sequence[PlannedKill]) -> None:
        """`folder` exists and is empty."""
        self.folder, self.random, self.plan = folder, random, kills

    @abstractmethod
    def running(self) -> AbstractContextManager[tuple[CampaignJob, SinkServices]]:
        """Runs everything but the job."""

    @abstractmethod
    def execute(self, execution: KillExecution, services: SinkServices, report: Report) -> None:
        """Executes the plan, and causes transitions meanwhile."""

    @abstractmethod
    def compare(self, job: CampaignJob) -> Comparison:
        """Compares the transitions with those that must be there."""

    def is_complete(self, job: CampaignJob) -> bool:
        """Whether all transitions are in the file."""
        return True

    def run(self, report: Report) -> CampaignResult:
        """Runs the job with all kills."""
        began = time.monotonic()
        with self.running() as (job, services):
            execution = KillExecution(job, self.random, reach_s=self.reach_s)
            try:
                execution.start()
                self.execute(execution, services, report)
                self.vary(services, None)
                self.await_complete(execution)
                if code := job.ended():
                    execution.problems.append(f"SIGTERM: the job ended with exit code {code}: {job.newest_output()}")
            except (CampaignStuckError, LabError) as problem:
                execution.problems.append(str(problem))
            finally:
                job.stop()
            if left := job.await_leftovers(60):
                execution.problems.append(f"processes of the job did not end: {left}")
            return self._result(execution, services, time.monotonic() - began)

    def job(self, folder: Path, services: SinkServices, config: Mapping[str, Any], **settings: Any) -> CampaignJob:
        """Returns a job in this folder; `settings` change its processes."""
        self.settings = services.write_settings(folder, **settings)
        environment = job_processes.environment(folder)
        job = CampaignJob(folder=folder, name="campaign", bootstrap=(), environment=environment)
        job.configure(config, repeat=self.repeat)
        return job

    def vary(self, services: SinkServices, planned: PlannedKill | None) -> None:
        """Changes the availability of the services; without a kill, both are up."""
        for service, name in zip((services.pagerduty, services.slack), SERVICE_NAMES, strict=True):
            chosen = self.random.choice(AVAILABILITY)
            # A service that is down accepts no call, after which the job could be killed.
            needed = planned is None or name in planned.order.point
            service.availability = Availability.UP if needed else chosen

    def silence(self, job: CampaignJob, id_: str, *, for_ms: int, **patterns: str) -> None:
        """Silences alerts from now on."""
        now_ms = self._now_ms()
        silence = Silence(
            id=id_,
            starts_at_ms=now_ms,
            ends_at_ms=Millis(now_ms + for_ms),
            author="campaign",
            comment="part of the campaign",
            **patterns,
        )
        _silences(job).add(silence, now_ms=now_ms)

    def end_silence(self, job: CampaignJob, id_: str) -> None:
        """Ends a silence now."""
        _silences(job).end(id_, now_ms=self._now_ms())

    def await_complete(self, execution: KillExecution) -> None:
        """Waits until all transitions are written and nothing is pending."""
        job = execution.job
        for silence in _silences(job).read():
            if silence.active(self._now_ms()):
                self.end_silence(job, silence.id)
        # The last kill may have been a moment ago: a job that has not begun to start ends with another exit code.
        execution.await_ready()
        deadline = time.monotonic() + COMPLETE_S
        while not self.is_complete(job) or any(job.pending().values()):
            if time.monotonic() > deadline:
                written = f"{len(job.alerts())} transitions were written, pending are {job.pending()}"
                raise CampaignStuckError(f"{written}: {job.newest_output()}")
            execution.restart_if_ended()
            time.sleep(1)

    def _now_ms(self) -> Millis:
        """The job's wall clock."""
        return Millis(wall_ms(self.settings, time.time_ns() // 1_000_000))

    def _result(self, execution: KillExecution, services: SinkServices, seconds: float) -> CampaignResult:
        job = execution.job
        alerts, log, silences = job.transitions(), delivery_log.read(job.folder), _silences(job).read()
        sinks = [check_file(job.jsonl, alerts), *check_people_sinks(alerts, log, services, execution.kills, silences)]
        compared = self.compare(job)
        damage = Checkpoint(folder=job.checkpoint).database_damage()
        return CampaignResult(
            mode=self.mode,
            kills=execution.kills,
            not_reached=execution.not_reached,
            starts=job.starts,
            compared=compared,
            sinks=sinks,
            problems=[
                *execution.problems,
                *([] if damage is None else [damage]),
                *compared.problems,
                *(problem for sink in sinks for problem in sink.problems),
            ],
            seconds=seconds,
        )


def _silences(job: CampaignJob) -> SilenceStore:
    return SilenceStore(job_database(job.checkpoint))
