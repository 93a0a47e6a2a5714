"""ChaosRun: a real quorum, the real job and its sinks, and faults that overlap, chosen by a seed."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from connectors.store.alert_store import DeliveryStatus
from deploy.lab import LabError, kafka_requests
from streaming.cli.options import RecordedOptions
from streaming.cli.recorded_job import RecordedJob
from streaming.demo.job_process import JsonlLine
from tests.agreement.agreement import AgreementCount
from tests.chaos import kill_order
from tests.chaos.chaos_fault import ChaosContext, ChaosFault, NotNowError
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.chaos_monitor import CLUSTER, chaos_monitor
from tests.chaos.cluster_faults import CLUSTER_FAULTS
from tests.chaos.delivery_check import SinkResult, check_deliveries, differences
from tests.chaos.disk_faults import DISK_FAULTS
from tests.chaos.facts import Course, FactLog, LeaderAnswer, Notified, Paged, Reported
from tests.chaos.kill_faults import KILL_FAULTS
from tests.chaos.kill_order import ExecutedKill
from tests.chaos.monitor_faults import MONITOR_FAULTS
from tests.chaos.oracle import LASTING

ALL_FAULTS = (*CLUSTER_FAULTS, *DISK_FAULTS, *KILL_FAULTS, *MONITOR_FAULTS)
STEP_S = 2.0
"""A fault that could not end yet is tried again after this time."""
SETTLE_S = 240.0
"""After the last fault everything must be resolved within this time."""
BROKERS = 3
AGREE_EVERY = 100
"""After how many recorded observations all outputs are compared."""
PHASE_S = (120.0, 300.0)
MOST_FAULTS = (1, 2, 3, 4)
"""How many faults are active at most, by phase."""
LENGTHS_S = ((2.0, 8.0), (15.0, 40.0), (60.0, 120.0), (60.0, 120.0))
"""Shorter than a hold, about a hold, and long enough for an alert."""


@dataclass(kw_only=True)
class ActiveFault:
    """A fault that has begun."""

    fault: ChaosFault
    node: int
    steps: Iterator[None]
    needs: frozenset[tuple[str, int]]
    due: float
    """When it ends, or is tried again."""


@dataclass(kw_only=True)
class ChaosRun:
    """One run in a folder. The seed decides who watches what: controllers, relays with a store, jobs."""

    folder: Path
    seed: int
    seconds: float
    say: Callable[[str], None]
    faults: Sequence[ChaosFault] = ALL_FAULTS
    counts: dict[str, int] = field(default_factory=dict)
    """How often each fault was injected."""
    problems: list[str] = field(default_factory=list)
    """What went wrong with the run itself."""
    deliveries: Sequence[SinkResult] = ()
    """What each sink got of the transitions of the ledger; of a run with one job."""
    kills: Sequence[ExecutedKill] = ()
    """The kills at named points."""
    _active: list[ActiveFault] = field(default_factory=list)
    _leaders: list[LeaderAnswer] = field(default_factory=list)
    _began: float = 0.0

    def run(self) -> Course:
        """Injects faults until the time is over, ends them, waits until nothing fires, returns what happened."""
        self.folder.mkdir(parents=True, exist_ok=True)
        controllers = 5 if self.seed % 2 else 3
        jobs, shared = 2 if self.seed % 4 == 0 else 1, self.seed % 4 in (0, 1)
        with ExitStack() as stack:
            lab = ChaosLab(self.folder / "lab", controllers=controllers, brokers=BROKERS)
            stack.enter_context(lab)
            monitor = stack.enter_context(chaos_monitor(self.folder, lab, shared=shared, jobs=jobs))
            stopped = Event()
            watching = Thread(target=self._watch_leader, args=(lab, stopped), daemon=True)
            watching.start()
            stack.callback(stopped.set)
            context = ChaosContext(
                lab=lab,
                facts=FactLog(),
                random=random.Random(self.seed),
                folder=self.folder,
                leader=lambda: self._leaders[-1].leader if self._leaders else None,
            )
            context.monitor = monitor
            self._began = time.time()
            quorum = f"{controllers} controllers and {BROKERS} brokers"
            self.say(f"{jobs} {'jobs watch' if jobs > 1 else 'job watches'} {quorum}; {self.folder}")
            try:
                self._inject(context)
                self._settle(context)
                self._check_ledger(context)
            finally:
                course = self._course(context)
                text = json.dumps(asdict(course), indent=1, default=sorted)
                (self.folder / "course.json").write_text(text, encoding="utf-8")
            return course

    # ---- faults

    def _inject(self, context: ChaosContext) -> None:
        end, phase_ends, most = self._began + self.seconds, 0.0, 1
        next_at = time.time() + 10
        while (now := time.time()) < end:
            if now >= phase_ends:
                most = context.random.choice(MOST_FAULTS)
                phase_ends = now + context.random.uniform(*PHASE_S)
                self.say(f"at most {most} faults at a time for {phase_ends - now:.0f} s")
            self._continue_due(context)
            self._supervise(context)
            if len(self._active) < most and now >= next_at:
                self._begin_one(context)
                next_at = time.time() + context.random.expovariate(1 / 12)
            time.sleep(0.2)

    @property
    def _taken(self) -> set[tuple[str, int]]:
        """What the active faults need for themselves."""
        return {need for each in self._active for need in each.needs}

    def _begin_one(self, context: ChaosContext) -> None:
        taken = self._taken
        possible: list[tuple[ChaosFault, Mapping[str, int]]] = []
        for fault in self.faults:
            free = {
                name: [one for one in choices if not _expanded(context, name, one) & taken]
                for name, choices in fault.needs(context).items()
            }
            if all(free.values()):
                chosen = {name: context.random.choice(choices) for name, choices in free.items()}
                possible += [(fault, chosen)] * fault.weight
        if not possible:
            return
        fault, choice = context.random.choice(possible)
        node, *_ = choice.values()
        needs = {need for name, one in choice.items() for need in _expanded(context, name, one)}
        steps = fault.run(context, node)
        length = min(fault.longest_s, context.random.uniform(*context.random.choice(LENGTHS_S)))
        before = time.time()
        try:
            next(steps)
        except NotNowError:
            return
        except StopIteration:
            length = 0.0
        except LabError as error:
            self.problems.append(f"{fault.name} {node}: {error}")
            return
        self.counts[fault.name] = self.counts.get(fault.name, 0) + 1
        subject = f" ({node})" if node else ""
        self.say(f"{fault.name}{subject} for {length:.0f} s; {time.time() - before:.0f} s to begin")
        self._active.append(
            ActiveFault(fault=fault, node=node, steps=steps, needs=frozenset(needs), due=time.time() + length)
        )

    def _continue_due(self, context: ChaosContext) -> None:
        for each in [one for one in self._active if one.due <= time.time()]:
            try:
                next(each.steps)
                each.due = time.time() + STEP_S
            except StopIteration:
                self._active.remove(each)
                self.say(f"  ended: {each.fault.name}{f' ({each.node})' if each.node else ''}")
            except LabError as error:
                self._active.remove(each)
                self.problems.append(f"the end of {each.fault.name} {each.node}: {error}")

    def _supervise(self, context: ChaosContext) -> None:
        """Starts jobs again that have ended by themselves."""
        taken = self._taken
        for number, job in context.monitor.jobs.items():
            if ("job", number) not in taken and job.restart_if_ended():
                self.say(f"job {number} has ended and is started again")
                self.counts["a job ended by itself"] = self.counts.get("a job ended by itself", 0) + 1
                context.may_have_ended("it ended by itself")
                context.monitor_off_for(60.0)

    def _settle(self, context: ChaosContext) -> None:
        """Ends all faults, and waits until nothing fires and nobody waits for a notification."""
        self.say("all faults end")
        deadline = time.time() + SETTLE_S
        for each in self._active:
            each.due = 0.0
        while self._active and time.time() < deadline:
            self._continue_due(context)
            time.sleep(0.2)
        self.problems += [f"{each.fault.name} {each.node} did not end" for each in self._active]
        jobs = context.monitor.jobs.values()
        while time.time() < deadline and not (all(job.is_ready() for job in jobs) and self._is_quiet(context)):
            self._supervise(context)
            time.sleep(1)
        self.problems += [each for job in jobs for each in job.refusals]
        time.sleep(20)

    def _is_quiet(self, context: ChaosContext) -> bool:
        stored = context.monitor.ledger()[1].values()
        pending = any(status is DeliveryStatus.PENDING for each in stored for status in each.status.values())
        return not pending and all(one.rule == LASTING for one in context.monitor.firing())

    def _check_ledger(self, context: ChaosContext) -> None:
        """Checks what each sink got, and that a replay of the recorded observations has the same transitions."""
        monitor = context.monitor
        if len(monitor.jobs) > 1:
            return
        job, content = monitor.jobs[1], monitor.ledger()
        self.kills = kill_order.executed(job.marker)
        self.deliveries = check_deliveries(
            content,
            jsonl=job.jsonl,
            calls=job.marker,
            services=monitor.sinks.services,
            kills=[*context.kills, *self.kills],
        )
        if not monitor.relays:
            self.problems += differences(job, content)
            self._check_agreement(job.file)

    def _check_agreement(self, config: Path) -> None:
        """Checks that no two outputs contradicted each other, by a replay of the recorded observations."""
        recorded, count = RecordedJob(RecordedOptions(config=config)), AgreementCount(every=AGREE_EVERY)
        rows = (row for row in recorded.recording().rows() if row.cluster == CLUSTER)
        self.problems += count.check_rows(rows, recorded.settings(CLUSTER))
        self.say(count.report)

    # ---- what happened

    def _watch_leader(self, lab: ChaosLab, stopped: Event) -> None:
        def answer(port: int | None) -> kafka_requests.QuorumState | None:
            return None if port is None else kafka_requests.quorum_state(port, connect=lab.connect)

        with ThreadPoolExecutor(max_workers=8) as pool:
            while not stopped.wait(1.0):
                ports = [node.controller_port for node in lab.layout.controllers if node.running]
                with suppress(LabError, OSError):
                    found = [each for each in pool.map(answer, ports) if each is not None]
                    newest = max(found, key=lambda state: state.leader_epoch, default=None)
                    leader = None if newest is None else newest.leader_id
                    epoch = None if newest is None else newest.leader_epoch
                    self._leaders.append(LeaderAnswer(at=time.time(), leader=leader, epoch=epoch))

    def _course(self, context: ChaosContext) -> Course:
        monitor, sinks = context.monitor, context.monitor.sinks
        return Course(
            start=self._began,
            end=time.time(),
            controllers=context.lab.controllers,
            facts=context.facts,
            leaders=list(self._leaders),
            reported=[_reported(each) for each in monitor.alerts()],
            notified=[_notified(each) for each in list(sinks.webhook.documents)],
            paged=[
                Paged(at=each.t + time.time() - time.monotonic(), effect=each.effect, key=each.subject)
                for each in list(sinks.services.pagerduty.accepted)
            ],
        )


def _expanded(context: ChaosContext, name: str, node: int) -> frozenset[tuple[str, int]]:
    if name.startswith("every "):
        kind = name.removeprefix("every ")
        nodes = context.lab.brokers if kind == "broker" else context.lab.controllers
        return frozenset((kind, each) for each in nodes)
    return frozenset({(name, node)})


def _reported(alert: JsonlLine) -> Reported:
    values = {each.name: getattr(alert, each.name) for each in fields(Reported) if each.name != "fingerprint"}
    return Reported(fingerprint=alert.line["fingerprint"], **values)


def _notified(document: Mapping[str, Any]) -> Notified:
    alerts = document["alerts"]
    return Notified(
        incident=document["incident"],
        reason=document["reason"],
        at=datetime.fromisoformat(document["sent_at"]).timestamp(),
        firing=frozenset((one["rule"], one["subject"]) for one in alerts if one["state"] == "firing"),
    )
