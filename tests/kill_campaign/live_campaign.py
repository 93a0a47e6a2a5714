"""The live half of a campaign: the real job on a real quorum, killed while faults are injected and fixed.

Each fault is reported by one alert that fires once and resolves once, in every sink, whatever is killed meanwhile.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from deploy.lab import LabError
from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine
from tests.kill_campaign import delivery_log
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.campaign_result import CampaignResult, Report
from tests.kill_campaign.delivery_check import check_file, check_people_sinks
from tests.kill_campaign.kill_execution import CampaignStuckError, KillExecution
from tests.kill_campaign.kill_plan import PlannedKill, plan
from tests.kill_campaign.live_fault import THRESHOLDS, LiveFault, await_healthy, choose_fault
from tests.kill_campaign.sink_services import Availability, SinkServices, running_services

CLUSTER = "live"
REPEAT = "15s"
REACH_S = 45.0
"""A fault is reported some seconds after its injection."""
TRANSITION_S = 240.0
"""Within this time a fault must be reported, or its end, whatever was killed meanwhile."""
PENDING_S = 180.0
SILENCE_SHARE = 0.35
AVAILABILITY = (*[Availability.UP] * 3, Availability.SLOW, Availability.DOWN)
SERVICE_NAMES = ("PagerDuty", "Slack")
"""As the names of kill points contain them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault of the campaign, and the number of the first line of the jsonl file after its injection."""

    fault: LiveFault
    since: int


class LiveCampaign:
    """One quorum and one job."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        """`folder` exists and is empty."""
        self._folder = folder
        self._random = Random(f"{seed} live")
        self._plan = plan(self._random, count)
        self._injected: list[InjectedFault] = []

    def run(self, report: Report) -> CampaignResult:
        """Runs the job with all kills."""
        began = time.monotonic()
        lab = Lab(self._folder / "lab", brokers=2, properties={"broker.session.timeout.ms": "3000"})
        with lab, running_services(self._folder / "ca") as services:
            job = self._job(lab, services)
            execution = KillExecution(job, self._random, reach_s=REACH_S)
            try:
                self._execute(lab, services, execution, report)
                if code := job.stop():
                    execution.problems.append(f"SIGTERM: the job ended with exit code {code}: {job.newest_output()}")
            except (CampaignStuckError, LabError) as problem:
                execution.problems.append(str(problem))
                job.stop()
            finally:
                job.kill_unless_ended()
            if left := job.await_leftovers(60):
                execution.problems.append(f"processes of the job did not end: {left}")
            return self._result(execution, services, time.monotonic() - began)

    def _job(self, lab: Lab, services: SinkServices) -> CampaignJob:
        services.write_settings(self._folder)
        config = {"clusters": [{"name": CLUSTER, "bootstrap": lab.bootstrap}], "thresholds": THRESHOLDS}
        return CampaignJob(self._folder, config, repeat=REPEAT)

    def _execute(self, lab: Lab, services: SinkServices, execution: KillExecution, report: Report) -> None:
        execution.start()
        execution.await_ready()
        kills = iter(self._plan)
        for first in kills:
            second = next(kills, None)
            fault = choose_fault(lab, self._random)
            self._injected.append(InjectedFault(fault=fault, since=len(_lines(execution.job))))
            # A silenced sink gets no call, at which the job could be killed.
            people = any(name in kill.order.point for kill in (first, second) if kill for name in SERVICE_NAMES)
            with nullcontext() if people else self._silence(execution.job, fault):
                self._vary(services, first)
                report(execution.execute(first, when_ordered=fault.inject))
                alert = self._await_line(execution, "firing")
            self._vary(services, second)
            if second is None:
                fault.fix(alert)
            else:
                report(execution.execute(second, when_ordered=partial(fault.fix, alert)))
            self._await_line(execution, "resolved")
            await_healthy(lab)
        self._vary(services, None)
        # The last kill may have been a moment ago: a job that has not begun to start ends with another exit code.
        execution.await_ready()
        self._await_nothing_pending(execution)

    @contextmanager
    def _silence(self, job: CampaignJob, fault: LiveFault) -> Iterator[None]:
        """Now and then, silences the alert of a fault until it fires, or also while it resolves."""
        if self._random.random() >= SILENCE_SHARE:
            yield
            return
        to_the_end = self._random.random() < 0.5
        options = ["--rule", fault.rule, "--for", "30m", "--comment", "part of the campaign"]
        number = _silence_command(job, "add", *options).strip()
        yield
        if not to_the_end:
            _silence_command(job, "end", number)

    def _vary(self, services: SinkServices, planned: PlannedKill | None) -> None:
        """Changes the availability of the services; without a kill, both are up."""
        for service, name in zip((services.pagerduty, services.slack), SERVICE_NAMES, strict=True):
            chosen = self._random.choice(AVAILABILITY)
            # A service that is down accepts no call, after which the job could be killed.
            needed = planned is None or name in planned.order.point
            service.availability = Availability.UP if needed else chosen

    def _await_line(self, execution: KillExecution, state: str) -> AlertLine:
        """Waits until the newest fault has fired or resolved.

        Raises:
            CampaignStuckError: it has not in time.
        """
        newest = self._injected[-1]
        deadline = time.monotonic() + TRANSITION_S
        while time.monotonic() < deadline:
            for line in _lines(execution.job)[newest.since :]:
                if newest.fault.is_reported_by(line) and line.state == state:
                    return line
            execution.restart_if_ended()
            time.sleep(0.1)
        text = f"{newest.fault.rule} is not {state}, although {newest.fault.description}"
        raise CampaignStuckError(f"{text}: {execution.job.newest_output()}")

    def _await_nothing_pending(self, execution: KillExecution) -> None:
        job = execution.job
        for silence in SilenceStore(job_database(job.checkpoint.folder)).read():
            if silence.ends_at_ms > time.time() * 1000:
                _silence_command(job, "end", silence.id)
        deadline = time.monotonic() + PENDING_S
        while any(job.pending().values()):
            if time.monotonic() > deadline:
                raise CampaignStuckError(f"pending at the end: {job.pending()}: {job.newest_output()}")
            execution.restart_if_ended()
            time.sleep(1)

    def _result(self, execution: KillExecution, services: SinkServices, seconds: float) -> CampaignResult:
        job = execution.job
        alerts = job.alerts()
        log = delivery_log.read(job.folder)
        silences = SilenceStore(job_database(job.checkpoint.folder)).read()
        sinks = [check_file(job.jsonl, alerts), *check_people_sinks(alerts, log, services, execution.kills, silences)]
        found, wrong = self._compare(_lines(job))
        problems = [
            *execution.problems,
            *job.reported_damage(),
            *wrong,
            *(problem for sink in sinks for problem in sink.problems),
        ]
        return CampaignResult(
            mode="live",
            kills=execution.kills,
            not_reached=execution.not_reached,
            starts=job.starts,
            transitions_expected=2 * len(self._injected),
            transitions_found=found,
            sinks=sinks,
            problems=problems,
            seconds=seconds,
        )

    def _compare(self, lines: Sequence[AlertLine]) -> tuple[int, list[str]]:
        """Returns how many transitions of the injected faults were found, and what is wrong with them."""
        found, problems = 0, []
        ends = [*(injected.since for injected in self._injected[1:]), len(lines)]
        for injected, end in zip(self._injected, ends, strict=True):
            of_fault = [line for line in lines[injected.since : end] if injected.fault.is_reported_by(line)]
            # A change of severity is another firing line of the same alert.
            starts = list(dict.fromkeys((line.subject, line.started_at) for line in of_fault if line.state == "firing"))
            resolved = [line for line in of_fault if line.state == "resolved"]
            found += min(1, len(starts)) + min(1, len(resolved))
            if len(starts) != 1 or len(resolved) != 1:
                shown = [(line.subject, line.state, line.line["observed_at"]) for line in of_fault]
                problems.append(
                    f"{injected.fault.description}: {injected.fault.rule} fired {len(starts)} times and resolved "
                    f"{len(resolved)} times: {shown}"
                )
        return found, problems


def _lines(job: CampaignJob) -> list[AlertLine]:
    if not job.jsonl.exists():
        return []
    lines = []
    for number, line in enumerate(job.jsonl.read_bytes().split(b"\n")[:-1]):
        lines.append(AlertLine.of(json.loads(line), number))
    return lines


def _silence_command(job: CampaignJob, *arguments: str) -> str:
    command = [sys.executable, "-m", "streaming", "silence", *arguments, "--checkpoint", str(job.checkpoint.folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
