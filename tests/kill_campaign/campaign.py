"""Campaign: the real job with its sinks over a recording, killed by plan; nothing may be lost or doubled.

Its transitions must equal those of a replay of the same rows without Spark. The wall clock of the job runs faster, so
that repetitions, silences and storms of incidents take place within minutes.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from rich.console import Console

from connectors.store.alert_store import DeliveryStatus
from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID, Silence
from streaming.pipeline.checkpoint import Checkpoint
from tests.kill_campaign import delivery_log, job_processes, recording, replaced_gatherer
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.delivery_check import ExecutedKill, PeopleSinkCheck, SinkResult, check_file
from tests.kill_campaign.delivery_log import key_text
from tests.kill_campaign.instrumentation import Settings, wall_ms
from tests.kill_campaign.kill_execution import CampaignStuckError, KillExecution
from tests.kill_campaign.kill_order import KillOrder, plan
from tests.kill_campaign.replaced_gatherer import RECORDING, allow
from tests.kill_campaign.sink_services import PAGERDUTY, SLACK, Availability, SinkServices, running_services

COMPLETE_S = 240.0
"""Within this time everything must be delivered after the last kill."""
AVAILABILITY = (*[Availability.UP] * 3, Availability.SLOW, Availability.DOWN)
SILENCE_SHARE = 0.35
SILENCE_MS = (400_000, 2_000_000)
SERVICE_NAMES = {PAGERDUTY: "PagerDuty", SLACK: "Slack"}
"""As the names of kill points contain them."""
CLOCK_FACTOR = 20.0
TRANSITIONS_PER_KILL = 3
REPEAT = "3m"
"""The repeat interval of the sinks for people."""
REACH_S = 20.0
"""A point that a ready job does not reach within this time is replaced by a random moment."""
Report = Callable[[ExecutedKill], None]
"""Called after each kill."""


@dataclass(frozen=True, kw_only=True)
class CampaignResult:
    """All that was found."""

    kills: Sequence[ExecutedKill]
    starts: int
    expected: int
    """The transitions of the replay."""
    found: int
    sinks: Sequence[SinkResult]
    problems: Sequence[str]
    """One sentence for each broken promise; empty for a passed campaign."""
    seconds: float

    def print(self, console: Console) -> None:
        """Prints what a person reads."""
        console.print(
            f"\n{len(self.kills)} kills, {self.starts - 1} restarts of the job in {self.seconds / 60:.0f} "
            f"minutes; transitions: {self.found} of {self.expected}"
        )
        for title, counts in {
            "victims": Counter(kill.victim for kill in self.kills),
            "killed at": Counter(kill.at.partition(" (")[0] for kill in self.kills),
        }.items():
            console.print(f"{title}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}")
        for sink in self.sinks:
            console.print(
                f"{sink.sink}: {sink.found} of {sink.expected} transitions reported, {sink.discarded} discarded, "
                f"{sink.lost} lost, {sink.doubled} doubled, {len(sink.explained)} explained duplicates"
            )
            for text in sink.explained:
                console.print(f"  {text}", markup=False)
        for problem in self.problems:
            console.print(problem, style="red", markup=False)


class Campaign:
    """One recording and one job."""

    settings: Settings

    def __init__(self, folder: Path, seed: int, count: int, *, kills: Sequence[KillOrder] | None = None) -> None:
        """Writes the recording into `folder`. `kills`: None: chosen by the seed."""
        self.folder, self.random = folder, Random(seed)
        self.plan = plan(self.random, count) if kills is None else kills
        self._recording = recording.record(seed, transitions=max(60, count * TRANSITIONS_PER_KILL))
        recording.write(self._recording, folder / RECORDING)
        self.expected: Sequence[Alert] = [alert for _, alert in self._recording.transitions]

    def run(self, report: Report) -> CampaignResult:
        """Runs the job with all kills."""
        began = time.monotonic()
        with running_services(self.folder / "ca") as services:
            job = self._job(services)
            execution = KillExecution(job, self.random, reach_s=REACH_S)
            try:
                execution.start()
                for number, order in enumerate(self.plan, 1):
                    report(self._execute(number, order, execution, services))
                allow(job.folder, len(self._recording.rows))
                self._vary(services, None)
                self._await_complete(execution)
                if code := job.ended():
                    execution.problems.append(f"SIGTERM: the job ended with exit code {code}: {job.newest_output()}")
            except CampaignStuckError as problem:
                execution.problems.append(str(problem))
            finally:
                job.stop()
            if left := job.await_leftovers(60):
                execution.problems.append(f"processes of the job did not end: {left}")
            return self._result(execution, services, time.monotonic() - began)

    def _job(self, services: SinkServices) -> CampaignJob:
        clusters = [each.section(number) for number, each in enumerate(self._recording.clusters, start=1)]
        self.settings = services.write_settings(
            self.folder, rows_of=replaced_gatherer.__name__, clock_from_s=time.time(), clock_factor=CLOCK_FACTOR
        )
        environment = job_processes.environment(self.folder)
        job = CampaignJob(folder=self.folder, name="campaign", bootstrap=(), environment=environment)
        job.configure({"clusters": clusters, "thresholds": recording.thresholds()}, repeat=REPEAT)
        allow(self.folder, 0)
        return job

    def _execute(self, number: int, order: KillOrder, execution: KillExecution, services: SinkServices) -> ExecutedKill:
        """Kills while the rows of some more transitions are appended; now and then a cluster is silenced."""
        self._vary(services, order)
        if self.random.random() < SILENCE_SHARE:
            self._silence(execution.job, f"{number:08x}", self.random.choice(self._recording.clusters).name)
        rows = self._recording.rows_before(round(number * len(self.expected) / len(self.plan)))
        return execution.execute(order, when_ordered=partial(allow, execution.job.folder, rows))

    def _vary(self, services: SinkServices, order: KillOrder | None) -> None:
        """Changes the availability of the services; without a kill, both are up."""
        for sink, name in SERVICE_NAMES.items():
            chosen = self.random.choice(AVAILABILITY)
            # A service that is down accepts no call, after which the job could be killed.
            needed = order is None or name in order.point
            services.named(sink).availability = Availability.UP if needed else chosen

    def _silence(self, job: CampaignJob, id_: str, cluster: str) -> None:
        now_ms = self._now_ms()
        silence = Silence(
            id=id_,
            starts_at_ms=now_ms,
            ends_at_ms=Millis(now_ms + self.random.randint(*SILENCE_MS)),
            author="campaign",
            comment="part of the campaign",
            cluster=cluster,
        )
        _silences(job).add(silence, now_ms=now_ms)

    def _await_complete(self, execution: KillExecution) -> None:
        """Waits until all transitions are written and nothing is pending."""
        job = execution.job
        for silence in _silences(job).read():
            if silence.active(self._now_ms()):
                _silences(job).end(silence.id, now_ms=self._now_ms())
        # The last kill may have been a moment ago: a job that has not begun to start ends with another exit code.
        execution.await_ready()
        deadline = time.monotonic() + COMPLETE_S
        while not self._is_complete(job) or any(job.pending().values()):
            if time.monotonic() > deadline:
                written = f"{len(job.alerts())} transitions were written, pending are {job.pending()}"
                raise CampaignStuckError(f"{written}: {job.newest_output()}")
            execution.restart_if_ended()
            time.sleep(1)

    def _is_complete(self, job: CampaignJob) -> bool:
        return len(job.alerts()) >= len(self._recording.transitions)

    def _now_ms(self) -> Millis:
        """The job's wall clock."""
        return Millis(wall_ms(self.settings, time.time_ns() // 1_000_000))

    def _result(self, execution: KillExecution, services: SinkServices, seconds: float) -> CampaignResult:
        job, (records, stored) = execution.job, execution.job.content()
        alerts = [record.alert for record in records]
        log, silences = delivery_log.read(job.folder), _silences(job).read()
        sinks = [check_file(job.jsonl, alerts)]
        for sink in SERVICE_NAMES:
            status, service = stored[sink].status, services.named(sink)
            unsent = {one.number for one in records if status[one.number] is DeliveryStatus.DISCARDED}
            check = PeopleSinkCheck(
                sink=sink,
                alerts=alerts,
                discarded={key_text(one.alert.key) for one in records if one.number in unsent},
                log=log,
                accepted=service.accepted,
                refused=service.refused,
                kills=execution.kills,
                silences=silences,
            )
            sinks.append(check.result())
        found = [alert for alert in alerts if alert.cluster_id != JOB_CLUSTER_ID]
        damage = Checkpoint(folder=job.checkpoint).database_damage()
        return CampaignResult(
            kills=execution.kills,
            starts=job.starts,
            expected=len(self.expected),
            found=len(found),
            sinks=sinks,
            problems=[
                *execution.problems,
                *([] if damage is None else [damage]),
                *_differences(self.expected, found),
                *(problem for sink in sinks for problem in sink.problems),
            ],
            seconds=seconds,
        )


def _silences(job: CampaignJob) -> SilenceStore:
    return SilenceStore(job_database(job.checkpoint))


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
