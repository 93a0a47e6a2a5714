"""The live half of a campaign: the real job on a real quorum, killed while faults are injected and fixed.

Each fault is reported by one alert that fires once and resolves once, in every sink, whatever is killed meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine
from streaming.demo.scenarios import ScenarioContext, followers, leader, replace_disk
from tests.evaluation import fault_actions
from tests.kill_campaign.campaign import SERVICE_NAMES, SILENCE_SHARE, Campaign
from tests.kill_campaign.campaign_job import CampaignJob
from tests.kill_campaign.campaign_result import Comparison, Report
from tests.kill_campaign.kill_execution import CampaignStuckError, KillExecution
from tests.kill_campaign.kill_plan import plan
from tests.kill_campaign.sink_services import SinkServices, running_services

TRANSITION_S = 240.0
"""Within this time a fault must be reported, or its end, whatever was killed meanwhile."""
SILENCE_MS = 1_800_000
THRESHOLDS = {
    "no-leader": {"hold": 6, "clear": 3},
    "broker-fenced": {"hold": 4, "clear": 3},
    "voter-disk-replaced": {"hold": 5, "clear": 3},
    "failure-tolerance": {"hold": 5, "clear": 3},
    # The campaign causes many elections, and restarts nodes again and again.
    "epoch-churn": {"elections": 10_000},
    "node-restarting": {"starts": 10_000},
}
"""Short, so that a fault takes seconds."""


def pause_majority(context: ScenarioContext) -> None:
    """Stops the leader and another voter of three with SIGSTOP."""
    context.lab.pause(leader(context), followers(context)[0])


@dataclass(frozen=True, kw_only=True)
class LiveFault:
    """A fault of a healthy quorum, and the rule whose alert reports it."""

    rule: str
    inject: Callable[[ScenarioContext], None]
    fix: Callable[[ScenarioContext, Sequence[AlertLine]], None] = fault_actions.restore


FAULTS = (
    LiveFault(rule="broker-fenced", inject=fault_actions.stop_broker),
    LiveFault(rule="no-leader", inject=pause_majority),
    LiveFault(rule="failure-tolerance", inject=fault_actions.kill_follower),
    LiveFault(rule="voter-disk-replaced", inject=replace_disk, fix=fault_actions.run_printed_remedy),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault of the campaign, and the number of the first line of the jsonl file after its injection."""

    rule: str
    since: int


class LiveCampaign(Campaign):
    """One quorum and one job."""

    mode = "live"
    repeat = "15s"
    reach_s = 45.0
    """A fault is reported some seconds after its injection."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        random = Random(f"{seed} live")
        super().__init__(folder, random, plan(random, count))
        self._injected: list[InjectedFault] = []

    @contextmanager
    def running(self) -> Iterator[tuple[CampaignJob, SinkServices]]:
        lab = Lab(self.folder / "lab", brokers=2, properties={"broker.session.timeout.ms": "3000"})
        with lab, running_services(self.folder / "ca") as services:
            clusters = [{"name": "live", "bootstrap": lab.bootstrap}]
            job = self.job(self.folder, services, {"clusters": clusters, "thresholds": THRESHOLDS})
            self._context = ScenarioContext(lab=lab, job=job, say=lambda _: None)
            yield job, services

    def execute(self, execution: KillExecution, services: SinkServices, report: Report) -> None:
        execution.await_ready()
        kills, context = iter(self.plan), self._context
        for first in kills:
            second = next(kills, None)
            fault = self.random.choice(FAULTS)
            self._injected.append(InjectedFault(rule=fault.rule, since=len(execution.job.alerts())))
            # A silenced sink gets no call, at which the job could be killed.
            people = any(name in kill.order.point for kill in (first, second) if kill for name in SERVICE_NAMES)
            with nullcontext() if people else self._silenced(execution.job, fault):
                self.vary(services, first)
                report(execution.execute(first, when_ordered=partial(fault.inject, context)))
                alert = self._await_line(execution, "firing")
            fix = partial(fault.fix, context, [alert])
            self.vary(services, second)
            if second is None:
                fix()
            else:
                report(execution.execute(second, when_ordered=fix))
            self._await_line(execution, "resolved")
            fault_actions.await_whole_quorum(context.lab)

    @contextmanager
    def _silenced(self, job: CampaignJob, fault: LiveFault) -> Iterator[None]:
        """Now and then, silences the alert of a fault until it fires, or also while it resolves."""
        if self.random.random() >= SILENCE_SHARE:
            yield
            return
        to_the_end, id_ = self.random.random() < 0.5, f"{len(self._injected):08x}"
        self.silence(job, id_, for_ms=SILENCE_MS, rule=fault.rule)
        yield
        if not to_the_end:
            self.end_silence(job, id_)

    def _await_line(self, execution: KillExecution, state: str) -> AlertLine:
        """Waits until the newest fault has fired or resolved.

        Raises:
            CampaignStuckError: it has not in time.
        """
        newest, deadline = self._injected[-1], time.monotonic() + TRANSITION_S
        while time.monotonic() < deadline:
            for line in execution.job.alerts()[newest.since :]:
                if (line.rule, line.state) == (newest.rule, state):
                    return line
            execution.restart_if_ended()
            time.sleep(0.1)
        raise CampaignStuckError(f"{newest.rule} is not {state}: {execution.job.newest_output()}")

    def compare(self, job: CampaignJob) -> Comparison:
        found, problems, lines = 0, [], job.alerts()
        ends = [*(injected.since for injected in self._injected[1:]), len(lines)]
        for injected, end in zip(self._injected, ends, strict=True):
            of_fault = [line for line in lines[injected.since : end] if line.rule == injected.rule]
            # A change of severity is another firing line of the same alert.
            starts = {(line.subject, line.started_at) for line in of_fault if line.state == "firing"}
            resolved = [line for line in of_fault if line.state == "resolved"]
            found += min(1, len(starts)) + min(1, len(resolved))
            if len(starts) != 1 or len(resolved) != 1:
                shown = [(line.subject, line.state, line.line["observed_at"]) for line in of_fault]
                problems.append(
                    f"{injected.rule} fired {len(starts)} times and resolved {len(resolved)} times: {shown}"
                )
        return Comparison(expected=2 * len(self._injected), found=found, problems=problems)
