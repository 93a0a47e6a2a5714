"""The recorded half of a campaign: the real job over a recording, killed again and again.

Its transitions must equal those of an uninterrupted run. The wall clock of the job runs faster, so that repetitions,
silences and storms of incidents take place within minutes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from rules.alert import Alert
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.pipeline.checkpoint import Checkpoint
from tests.kill_campaign import recording
from tests.kill_campaign.campaign import SILENCE_SHARE, Campaign
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.campaign_result import Comparison, Report
from tests.kill_campaign.kill_execution import KillExecution
from tests.kill_campaign.kill_plan import PlannedKill, plan
from tests.kill_campaign.recording import Recording
from tests.kill_campaign.replay_gatherer import allow
from tests.kill_campaign.sink_services import SinkServices, running_services

CLOCK_FACTOR = 20.0
TRANSITIONS_PER_KILL = 3
SILENCE_MS = (400_000, 2_000_000)


class RecordedCampaign(Campaign):
    """One recording and one job."""

    mode = "recorded"
    repeat = "3m"
    reach_s = 20.0

    def __init__(self, folder: Path, seed: int, count: int, *, kills: Sequence[PlannedKill] | None = None) -> None:
        """Writes the recording into `folder`. `kills`: None: chosen by the seed."""
        random = Random(seed)
        super().__init__(folder, random, plan(random, count) if kills is None else kills)
        faults = max(6, round(count * TRANSITIONS_PER_KILL / 5))
        self._recording: Recording = recording.record(seed, faults=faults)
        self._file = folder / "recording.jsonl"
        recording.write(self._recording, self._file)
        self.expected: Sequence[Alert] = [alert for _, alert in self._recording.transitions]
        """At first those of a replay without Spark."""

    def run_uninterrupted(self) -> None:
        """Expects the transitions of the real job without a kill."""
        with self._started("uninterrupted") as (job, _):
            allow(job.folder, len(self._recording.rows))
            execution = KillExecution(job, self.random, reach_s=self.reach_s)
            execution.start()
            try:
                self.await_complete(execution)
            finally:
                job.stop()
            assert execution.problems == []
            self.expected = _of_clusters(job.transitions())

    def running(self) -> AbstractContextManager[tuple[CampaignJob, SinkServices]]:
        return self._started("killed")

    @contextmanager
    def _started(self, name: str) -> Iterator[tuple[CampaignJob, SinkServices]]:
        folder = self.folder / name
        folder.mkdir()
        with running_services(folder / "ca") as services:
            yield self._job(folder, services), services

    def _job(self, folder: Path, services: SinkServices) -> CampaignJob:
        clusters = [
            {
                "name": cluster.name,
                "bootstrap": list(cluster.bootstrap),
                "cluster_id": cluster.cluster_id,
                "metadata_log": cluster.log,
                # No controller answers there: the ids are recorded, as after a restart during an outage.
                # No two clusters may share an address.
                "resolve": {address.partition(":")[0]: f"127.0.0.{number}" for address in cluster.bootstrap},
            }
            for number, cluster in enumerate(self._recording.clusters, start=1)
        ]
        config = {"clusters": clusters, "thresholds": recording.thresholds()}
        clock = {"clock_from_s": time.time(), "clock_factor": CLOCK_FACTOR}
        job = self.job(folder, services, config, recording=str(self._file), **clock)
        job.checkpoint.mkdir()
        ids = {each.name: each.cluster_id for each in self._recording.clusters}
        Checkpoint(folder=job.checkpoint).record_cluster_ids(ids)
        allow(folder, 0)
        return job

    def execute(self, execution: KillExecution, services: SinkServices, report: Report) -> None:
        for number, planned in enumerate(self.plan, 1):
            self.vary(services, planned)
            if self.random.random() < SILENCE_SHARE:
                cluster = self.random.choice(self._recording.clusters).name
                for_ms = self.random.randint(*SILENCE_MS)
                self.silence(execution.job, f"{number:08x}", for_ms=for_ms, cluster=cluster)
            rows = self._recording.rows_before(round(number * len(self.expected) / len(self.plan)))
            report(execution.execute(planned, when_ordered=partial(allow, execution.job.folder, rows)))
        allow(execution.job.folder, len(self._recording.rows))

    def is_complete(self, job: CampaignJob) -> bool:
        return len(job.alerts()) >= len(self._recording.transitions)

    def compare(self, job: CampaignJob) -> Comparison:
        found = _of_clusters(job.transitions())
        return Comparison(expected=len(self.expected), found=len(found), problems=_differences(self.expected, found))


def _of_clusters(alerts: Sequence[Alert]) -> Sequence[Alert]:
    """Returns the alerts without those about the job's own sinks, which depend on the time."""
    return [alert for alert in alerts if alert.cluster_id != JOB_CLUSTER_ID]


def _differences(expected: Sequence[Alert], found: Sequence[Alert]) -> list[str]:
    """Compares the transitions of each cluster, their order and content; batches decide the order between clusters."""
    problems = []
    for cluster in sorted({alert.cluster for alert in (*expected, *found)}):
        wanted = [_comparable(alert) for alert in expected if alert.cluster == cluster]
        got = [_comparable(alert) for alert in found if alert.cluster == cluster]
        if wanted != got:
            at = next((n for n, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]), -1)
            problems.append(
                f"cluster {cluster}: {len(got)} transitions instead of {len(wanted)}; the first difference is at {at}: "
                f"{wanted[at : at + 1]} became {got[at : at + 1]}"
            )
    return problems


def _comparable(alert: Alert) -> Alert:
    """Returns the alert without the number of its row in the journal: rows of the clock are before it."""
    return replace(alert, evidence={name: value for name, value in alert.evidence.items() if name != "journal_row"})
