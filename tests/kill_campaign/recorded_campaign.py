"""The recorded half of a campaign: the real job over a recording, killed again and again.

Its transitions must equal those of an uninterrupted run. The wall clock of the job runs faster, so that repetitions,
silences and storms of incidents take place within minutes.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID, Silence
from tests.kill_campaign import delivery_log, recording
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.campaign_result import CampaignResult, Report
from tests.kill_campaign.delivery_check import check_file, check_people_sinks
from tests.kill_campaign.instrumentation import Settings, wall_ms
from tests.kill_campaign.kill_execution import CampaignStuckError, KillExecution
from tests.kill_campaign.kill_plan import PlannedKill, plan
from tests.kill_campaign.kill_point import Role
from tests.kill_campaign.recording import Recording
from tests.kill_campaign.replay_gatherer import allow
from tests.kill_campaign.sink_services import Availability, SinkServices, running_services

CLOCK_FACTOR = 20.0
REPEAT = "3m"
COMPLETE_S = 240.0
REACH_S = 20.0
TRANSITIONS_PER_KILL = 3
AVAILABILITY = (*[Availability.UP] * 3, Availability.SLOW, Availability.DOWN)
SILENCE_SHARE = 0.35
SILENCE_MS = (400_000, 2_000_000)


class RecordedCampaign:
    """One recording and one job."""

    def __init__(self, folder: Path, seed: int, count: int, *, kills: Sequence[PlannedKill] | None = None) -> None:
        """Writes the recording into `folder`, which must exist and be empty.

        Args:
            folder: the folder of the campaign.
            seed: of all random choices.
            count: the number of kills.
            kills: None: chosen by the seed.
        """
        self._folder = folder
        self._random = Random(seed)
        self._plan = plan(self._random, count) if kills is None else kills
        faults = max(6, round(count * TRANSITIONS_PER_KILL / 5))
        self._recording: Recording = recording.record(seed, faults=faults)
        self._file = folder / "recording.jsonl"
        recording.write(self._recording, self._file)
        self._silences: list[Silence] = []

    def uninterrupted(self) -> Sequence[Alert]:
        """Returns the transitions of the real job without a kill."""
        folder = self._folder / "uninterrupted"
        folder.mkdir()
        with running_services(folder / "ca") as services:
            job, _ = self._job(folder, services)
            allow(folder, len(self._recording.rows))
            execution = KillExecution(job, self._random, reach_s=REACH_S)
            execution.start()
            self._await_complete(execution)
            job.stop()
            return _of_clusters(job.alerts())

    def replayed(self) -> Sequence[Alert]:
        """Returns the transitions of a replay without Spark."""
        return [alert for _, alert in self._recording.transitions]

    def run(self, expected: Sequence[Alert], report: Report) -> CampaignResult:
        """Runs the job with all kills and compares it with the expected transitions."""
        began = time.monotonic()
        folder = self._folder / "killed"
        folder.mkdir()
        with running_services(folder / "ca") as services:
            job, settings = self._job(folder, services)
            execution = KillExecution(job, self._random, reach_s=REACH_S)
            try:
                execution.start()
                for number, planned in enumerate(self._plan, 1):
                    self._vary(services, job, settings, planned)
                    rows = self._recording.rows_before(round(number * len(expected) / len(self._plan)))
                    report(execution.execute(planned, when_ordered=partial(allow, folder, rows)))
                for service in (services.pagerduty, services.slack):
                    service.availability = Availability.UP
                self._end_silences(job, settings)
                allow(folder, len(self._recording.rows))
                self._await_complete(execution)
                if code := job.stop():
                    execution.problems.append(f"SIGTERM: the job ended with exit code {code}: {job.newest_output()}")
            except CampaignStuckError as problem:
                execution.problems.append(str(problem))
                job.stop()
            finally:
                job.kill_unless_ended()
            if left := job.await_leftovers(60):
                execution.problems.append(f"processes of the job did not end: {left}")
            return self._result(execution, services, expected, time.monotonic() - began)

    def _job(self, folder: Path, services: SinkServices) -> tuple[CampaignJob, Settings]:
        settings = services.write_settings(
            folder, recording=str(self._file), clock_from_s=time.time(), clock_factor=CLOCK_FACTOR
        )
        clusters = [
            {
                "name": cluster.name,
                "bootstrap": list(cluster.bootstrap),
                "cluster_id": cluster.cluster_id,
                "metadata_log": cluster.log,
                # No controller answers there: the ids are recorded, as after a restart during an outage.
                # Two simulated clusters have the same names, and no two clusters may share an address.
                "resolve": {address.partition(":")[0]: f"127.0.0.{number}" for address in cluster.bootstrap},
            }
            for number, cluster in enumerate(self._recording.clusters, start=1)
        ]
        job = CampaignJob(folder, {"clusters": clusters, "thresholds": recording.thresholds()}, repeat=REPEAT)
        job.checkpoint.folder.mkdir()
        job.checkpoint.record_cluster_ids({each.name: each.cluster_id for each in self._recording.clusters})
        allow(folder, 0)
        return job, settings

    def _vary(self, services: SinkServices, job: CampaignJob, settings: Settings, planned: PlannedKill) -> None:
        """Changes the availability of the services, and adds a silence now and then."""
        for service in (services.pagerduty, services.slack):
            service.availability = self._random.choice(AVAILABILITY)
        if planned.role is Role.DRIVER:
            # A service that is down accepts no call, after which the job could be killed.
            if "PagerDuty" in planned.order.point:
                services.pagerduty.availability = Availability.UP
            if "Slack" in planned.order.point:
                services.slack.availability = Availability.UP
        if self._random.random() < SILENCE_SHARE:
            now_ms = Millis(wall_ms(settings, time.time_ns() // 1_000_000))
            silence = Silence(
                id=f"{planned.order.number:08x}",
                cluster=self._random.choice(self._recording.clusters).name,
                starts_at_ms=now_ms,
                ends_at_ms=Millis(now_ms + self._random.randint(*SILENCE_MS)),
                author="campaign",
                comment="part of the campaign",
            )
            SilenceStore(job_database(job.checkpoint.folder)).add(silence, now_ms=now_ms)
            self._silences.append(silence)

    def _end_silences(self, job: CampaignJob, settings: Settings) -> None:
        now_ms = Millis(wall_ms(settings, time.time_ns() // 1_000_000))
        file = SilenceStore(job_database(job.checkpoint.folder))
        for silence in [each for each in file.read() if each.ends_at_ms > now_ms]:
            file.end(silence.id, now_ms=now_ms)

    def _await_complete(self, execution: KillExecution) -> None:
        """Waits until all rows are delivered and nothing is pending."""
        deadline = time.monotonic() + COMPLETE_S
        total = len(self._recording.transitions)
        execution.await_ready()
        while True:
            job = execution.job
            if job.exit_code is not None:
                raise CampaignStuckError(f"the job ended by itself: {job.newest_output()}")
            if _lines(job.jsonl) >= total and not any(job.pending().values()):
                return
            if time.monotonic() > deadline:
                raise CampaignStuckError(
                    f"{_lines(job.jsonl)} of {total} transitions were written, pending are {job.pending()}"
                )
            time.sleep(1)

    def _result(
        self, execution: KillExecution, services: SinkServices, expected: Sequence[Alert], seconds: float
    ) -> CampaignResult:
        job = execution.job
        alerts = job.alerts()
        problems = [*execution.problems, *job.reported_damage(), *_differences(expected, _of_clusters(alerts))]
        log = delivery_log.read(job.folder)
        people = check_people_sinks(alerts, log, services, execution.kills, self._silences)
        sinks = [check_file(job.jsonl, alerts), *people]
        return CampaignResult(
            mode="recorded",
            kills=execution.kills,
            not_reached=execution.not_reached,
            starts=job.starts,
            transitions_expected=len(expected),
            transitions_found=len(_of_clusters(alerts)),
            sinks=sinks,
            problems=[*problems, *(problem for sink in sinks for problem in sink.problems)],
            seconds=seconds,
        )


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


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
