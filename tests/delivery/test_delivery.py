"""Delivery as one state machine: whatever happens, each sink's service has what is true in the end, and nothing else.

What happens: conditions begin, change and end; people silence and acknowledge; services accept, refuse, answer late or
are down; a job is killed at any commit, stopped, behind, or restarted; another job takes over; sinks are replaced.
What must be true of each notification is in `services.py`; here is what must be true of a job, and in the end.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from connectors.errors import StoreError
from connectors.sinks.alert_json import key_of
from connectors.sinks.sink import DeliveryMode
from connectors.store import sqlite_file
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.alert_store import AlertStore
from connectors.store.collection import SilenceStore
from connectors.store.tables import sqlite_database
from rules.alert import Alert, AlertId
from rules.evaluate import RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import Route, Silence
from streaming.status.status_store import Engine
from tests.delivery.jobs import Condition, Fault, Faults, Job, Killed, Monitor, SharedLease
from tests.delivery.services import Behaviour, Service, Truth, fires
from tests.delivery.simulated_time import SimulatedClock, simulated_time

CONDITIONS: Sequence[Condition] = (
    # The first inhibits the second and is grouped with the third; the others are unrelated.
    ("alpha", "no-leader", "one"),
    ("alpha", "broker-fenced", "one"),
    ("alpha", "stale-voter-endpoint", "two"),
    ("alpha", "version-drift", "two"),
    ("beta", "version-drift", "two"),
)
"""Few, so that each changes often."""
Changes: TypeAlias = Sequence[tuple[Condition, Severity | None]]
CHANGES = st.lists(
    st.tuples(st.sampled_from(CONDITIONS), st.sampled_from([*Severity, Severity.CRITICAL, None, None, None])),
    max_size=3,
)
EVENTS = (0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 10)
"""Of a step, at which something happens: the first are commits of what is recorded."""
PATTERNS = ("no-leader", "broker-fenced", "version-drift", "one", "two")
CRITICAL, EVERYTHING = Route(min_severity=Severity.CRITICAL), Route()
ROUTES = {"pager": (CRITICAL, EVERYTHING), "archive": (Route(clusters=("al*",)), replace(CRITICAL, clusters=("al*",)))}
JOBS = ("first", "second")


@cache
def empty_store() -> Path:
    """Returns a file with the tables of a new store."""
    folder = Path(tempfile.mkdtemp())
    database = sqlite_database(folder)
    database.create()
    database.close()
    return folder / "kraftwatch.db"


def services(clock: SimulatedClock) -> list[Service]:
    return [
        Service("people", clock, repeat_s=900, shows_acknowledgements=True),
        Service("pager", clock, route=CRITICAL),
        Service("alertmanager", clock, repeat_s=60, expires=True),
        Service("record", clock, mode=DeliveryMode.TRANSITIONS),
        Service("archive", clock, mode=DeliveryMode.TRANSITIONS, route=ROUTES["archive"][0]),
    ]


class Change(Enum):
    """What happens to a job."""

    STOPS = "stops"
    STARTS = "starts again"
    STARTS_WITHOUT_STATE = "starts with a new checkpoint"
    STALLS = "is stopped by its host, or goes on"
    FALLS_BEHIND = "does not evaluate, or does again"


class Delivery(RuleBasedStateMachine):
    """Two jobs on one store, five services, and a file."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        self.folder = Path(self.patches.enter_context(tempfile.TemporaryDirectory()))
        shutil.copy(empty_store(), self.folder)
        self.clock, self.faults = SimulatedClock(), Faults()
        self.patches.enter_context(simulated_time(self.clock))
        self.patches.enter_context(patch.object(sqlite_file, "SYNCHRONOUS", "OFF"))
        self.patches.enter_context(patch.object(AlertStore, "_write", self.faults.at_commit(AlertStore._write)))
        for name in ("write", "fsync", "ftruncate"):
            self.patches.enter_context(patch.object(os, name, self.faults.at_file(getattr(os, name))))
        self.services, self.lease = services(self.clock), SharedLease(self.clock)
        self.store = sqlite_database(self.folder)
        self.silence_store, self.acknowledgement_store = SilenceStore(self.store), AcknowledgementStore(self.store)
        self.conditions: dict[Condition, Severity] = {}
        self.silences: dict[str, Silence] = {}
        self.acknowledged: dict[AlertId, tuple[Severity, Millis | None]] = {}
        self.states = dict.fromkeys(JOBS, Monitor())
        self.repeats = dict.fromkeys(JOBS)
        self.stalled: set[str] = set()
        self.behind: set[str] = set()
        self.jobs: dict[str, Job] = {}
        self.went_well = True
        for name in JOBS:
            self.start(name)

    # --- what happens ------------------------------------------------------------------------------------------------

    @rule(changes=CHANGES, seconds=st.sampled_from([1, 2, 10, 31, 61, 600, 4_000]))
    def time_passes(self, changes: Changes, seconds: int) -> None:
        self.change(changes)
        self.run(seconds)

    @rule(changes=CHANGES, condition=st.sampled_from(CONDITIONS))
    def condition_begins_and_ends(self, changes: Changes, condition: Condition) -> None:
        """Between two evaluations."""
        self.change(changes)
        self.run(3, over=[] if condition in self.conditions else [condition])

    @rule(changes=CHANGES, pattern=st.sampled_from(PATTERNS), seconds=st.sampled_from([5, 100, 5_000]))
    def people_silence(self, changes: Changes, pattern: str, seconds: int) -> None:
        now_ms = self.clock.wall_ms()
        where = {"rule" if pattern in RULES else "subject": pattern}
        times = {"starts_at_ms": now_ms, "ends_at_ms": Millis(now_ms + 1_000 * seconds)}
        one = Silence(id=f"{len(self.silences)}", author="eva", comment="", **where, **times)  # type: ignore[arg-type]
        self.silences[one.id] = one
        self.silence_store.add(one, now_ms=now_ms)
        self.change(changes)
        self.run(1)

    @rule(changes=CHANGES, at=st.integers(0, 4), seconds=st.sampled_from([None, 100]))
    def people_acknowledge(self, changes: Changes, at: int, seconds: int | None) -> None:
        now_ms = self.clock.wall_ms()
        firing = [one for job in self.jobs.values() for one in job.notifying.ledger.firing() if job.lease.held]
        for one in firing[at : at + 1]:
            until_ms = None if seconds is None else Millis(now_ms + 1_000 * seconds)
            self.acknowledgement_store.add([one], by="Ana", now_ms=now_ms, until_ms=until_ms)
            self.acknowledged[one.alert_id] = one.severity, until_ms
        self.change(changes)
        self.run(1)

    @rule(changes=CHANGES)
    def people_hold_nothing_back(self, changes: Changes) -> None:
        self.end_holds()
        self.change(changes)
        self.run(1)

    @rule(changes=CHANGES, at=st.integers(0, 5), behaviour=st.sampled_from(Behaviour))
    def service_behaves(self, changes: Changes, at: int, behaviour: Behaviour) -> None:
        """One, or the last: all of them."""
        for one in self.services[at : at + 1] or self.services:
            one.behaviour = behaviour
        self.change(changes)
        self.run(1)

    @rule(changes=CHANGES, fault=st.sampled_from(Fault), at=st.sampled_from(EVENTS))
    def something_happens_in_a_step(self, changes: Changes, fault: Fault, at: int) -> None:
        """To the job that notifies."""
        self.change(changes)
        self.run(1, fault=fault, at=at)

    @rule(changes=CHANGES, name=st.sampled_from(JOBS), what=st.sampled_from(Change))
    def job_changes(self, changes: Changes, name: str, what: Change) -> None:
        job = self.jobs.get(name)
        match what:
            case Change.STALLS:
                self.stalled ^= {name}
            case Change.FALLS_BEHIND:
                self.behind ^= {name}
            case Change.STOPS if job is not None and name not in self.stalled:
                if job.lease.owned:
                    job.notifying.settle(job.lease.give_up)
                    for one in self.services:
                        one.confirm(name, self.clock.now_s)
                self.end(job)
            case Change.STARTS | Change.STARTS_WITHOUT_STATE:
                if job is not None:
                    self.end(job)
                if what is Change.STARTS_WITHOUT_STATE:
                    self.states[name], self.repeats[name] = Monitor(), None
                self.start(name)
            case Change.STOPS:
                pass
        self.change(changes)
        self.run(1)

    @rule(changes=CHANGES, name=st.sampled_from(JOBS))
    def another_engine_counts(self, changes: Changes, name: str) -> None:
        """The job's understudy, or Spark again."""
        if (job := self.jobs.get(name)) is not None:
            job.engine = Engine.SPARK if job.engine is Engine.UNDERSTUDY else Engine.UNDERSTUDY
        self.change(changes)
        self.run(1)

    @rule(
        changes=CHANGES, at=st.integers(0, 4), route=st.integers(0, 1), configured=st.booleans(), replaced=st.booleans()
    )
    def configuration_is_read_again(
        self, changes: Changes, at: int, route: int, configured: bool, replaced: bool
    ) -> None:
        one = self.services[at]
        one.configured = configured
        if one.name in ROUTES:
            one.route = ROUTES[one.name][route]
        for job in [*self.jobs.values()]:
            job.notifying.set_sinks(job.sinks(replaced=replaced))
        self.change(changes)
        self.run(1)

    def change(self, changes: Changes) -> None:
        """Conditions begin, change their severity, or end (None)."""
        for condition, severity in changes:
            self.conditions.pop(condition, None)
            if severity is not None:
                self.conditions[condition] = severity

    def end_holds(self) -> None:
        now_ms = self.clock.wall_ms()
        for one in self.silences.values():
            if one.active(now_ms):
                self.silence_store.end(one.id, now_ms=now_ms)
        self.acknowledgement_store.end(self.acknowledged, now_ms=now_ms)
        self.silences.clear()
        self.acknowledged.clear()

    # --- how it runs ------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        job = Job(name, self.folder, self.services, self.lease, self.faults, self.truth, self.states[name])
        job.repeats = self.repeats[name]
        self.jobs[name] = job
        for one in self.services:
            one.delivered[name] = 0

    def end(self, job: Job) -> None:
        self.states[job.name], self.repeats[job.name] = job.monitor, job.repeats
        self.jobs = {name: one for name, one in self.jobs.items() if one is not job}
        self.stalled.discard(job.name)
        for one in self.services:
            one.answered.pop(job.name, None)
        job.close()

    def run(self, seconds: float, *, over: Sequence[Condition] = (), fault: Fault | None = None, at: int = 0) -> None:
        """Time passes, and each job that runs evaluates and delivers; `fault` happens to the one that notifies."""
        self.went_well = False
        running = [job for name, job in self.jobs.items() if name not in self.stalled]
        self.clock.pass_s(seconds)
        for job in running:
            if job.lease.owned and job.lease._token == self.lease.token:
                # As its thread has done meanwhile.
                job.lease._extend()
        for job in sorted(running, key=lambda one: not one.lease.held):
            if self.jobs.get(job.name) is job:
                self.step(job, over=over, fault=fault, at=at)
                fault = None
        self.went_well = True

    def step(self, job: Job, *, over: Sequence[Condition] = (), fault: Fault | None = None, at: int = 0) -> None:
        began_s = self.clock.now_s
        self.faults.arm(fault, at)
        self.faults.on_stall = lambda: self.others_run(job)
        expected = [one for one in over if one not in job.monitor.known]
        try:
            job.takes_turn()
            if job.repeats is not None:
                job.delivers(*job.repeats)
            if job.name in self.behind:
                delivered = job.delivers(job.monitor, {})
            else:
                delivered = job.delivers(*job.monitor.evaluated(self.conditions, over, self.clock.wall_ms()))
        except (Killed, StoreError) as problem:
            assert isinstance(problem, Killed) or fault is Fault.DISK_FULL
            self.end(job)
            return
        finally:
            self.faults.arm(None, 0)
        for one in self.services:
            if one.violation is not None:
                raise one.violation
        if delivered and job.lease.held:
            self.check(job, began_s, expected)
        elif not job.lease.owned:
            for one in self.services:
                one.answered.pop(job.name, None)

    def others_run(self, stalled: Job) -> None:
        """While one process is stopped."""
        self.clock.pass_s(20)
        for job in [*self.jobs.values()]:
            if job is not stalled and job.name not in self.stalled:
                self.step(job)

    def truth(self, job: Job) -> Truth:
        now_ms = self.clock.wall_ms()
        positions = {one.key: at for at, one in enumerate(job.notifying.ledger.history())}
        firing = {one.alert_id for one in job.notifying.ledger.firing()}
        return Truth(
            job=job.name,
            may_notify=job.lease.held,
            position=lambda key: positions[key],
            ended=lambda id_: id_ not in firing,
            silenced=lambda one: any(each.active(now_ms) and each.matches(one) for each in self.silences.values()),
            acknowledged=lambda one: self.is_acknowledged(one, now_ms),
        )

    def is_acknowledged(self, one: Alert, now_ms: Millis) -> bool:
        severity, until_ms = self.acknowledged.get(one.alert_id, (None, None))
        if severity is not None and one.severity.rank > severity.rank:
            del self.acknowledged[one.alert_id]
            return False
        return severity is not None and (until_ms is None or now_ms < until_ms)

    # --- what must be true of the job that notifies, after a step that went well -------------------------------------

    def check(self, job: Job, began_s: float, over: Sequence[Condition]) -> None:
        ledger = job.notifying.ledger
        if job.name not in self.behind:
            assert {(one.cluster, one.rule, one.subject): one.severity for one in ledger.firing()} == self.conditions
            ended = {(one.cluster, one.rule, one.subject) for one in ledger.history() if not fires(one)}
            assert ended >= {*over}
        for one in self.services:
            if one.configured:
                one.confirm(job.name, began_s)
                self.check_outputs(job, one)
        lines = (self.folder / "alerts.jsonl").read_bytes().splitlines()
        assert [key_of(line) for line in lines] == [one.key for one in ledger.history()]

    def check_outputs(self, job: Job, service: Service) -> None:
        """Nothing says that a service was notified of what it did not accept."""
        accepted = {each.key for alerts in service.accepted.values() for each in alerts}
        for incident, transitions in job.notifying.ledger.incidents(service.name).items():
            said = {each.alert.key for each in transitions if each.delivered}
            assert said <= accepted, f"{service.name}: {incident} was not delivered"
        assert job.reported[service.name] <= service.delivered[job.name]

    # --- what must be true in the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.went_well:
                self.settle()
                self.check_end()
        finally:
            for job in [*self.jobs.values()]:
                job.close()
            self.store.close()
            self.patches.close()

    def settle(self) -> None:
        """Everything works, and people hold nothing back."""
        for one in self.services:
            one.behaviour = Behaviour.ACCEPTS
        self.stalled.clear()
        self.behind.clear()
        for name in JOBS:
            if name not in self.jobs:
                self.start(name)
        self.end_holds()
        for seconds in (1, 10, 10, 10, 31, 31, 61, 61):
            self.run(seconds)

    def check_end(self) -> None:
        (ledger,) = [job.notifying.ledger for job in self.jobs.values() if job.lease.held]
        newest = {one.alert_id: one for one in ledger.history()}
        for one in self.services:
            if one.configured:
                self.check_service(one, newest)

    def check_service(self, service: Service, newest: Mapping[AlertId, Alert]) -> None:
        firing = {id_: one for id_, one in newest.items() if fires(one)}
        for id_, one in firing.items():
            if service.route.matches(one) and not (service.notifies_people and self.is_inhibited(one)):
                assert id_ in service.shown, f"{service.name} does not show {one.key}"
                assert service.shown[id_].severity is one.severity
        for id_, one in service.shown.items():
            assert id_ in firing, f"{service.name} still shows {one.key}"

    def is_inhibited(self, one: Alert) -> bool:
        causes = RULES[one.rule].inhibited_by
        return any(rule in causes and cluster == one.cluster for cluster, rule, _ in self.conditions)


def test_a_page_whose_answer_was_lost_ends_though_its_job_is_killed_and_people_silence_it() -> None:
    """It belongs to an incident of which the service has confirmed an earlier alert."""
    condition = ("alpha", "stale-voter-endpoint", "two")
    delivery = Delivery()
    delivery.condition_begins_and_ends(changes=[], condition=condition)
    delivery.service_behaves(changes=[], at=len(delivery.services), behaviour=Behaviour.LOSES_ANSWERS)
    began: Changes = [(condition, Severity.CRITICAL)]
    delivery.something_happens_in_a_step(changes=began, fault=Fault.KILLED_AFTER, at=3)
    delivery.time_passes(changes=[], seconds=4_000)
    delivery.condition_begins_and_ends(changes=[(condition, None)], condition=("alpha", "version-drift", "two"))
    delivery.configuration_is_read_again(changes=[], at=2, route=1, configured=True, replaced=True)
    delivery.people_silence(changes=[], pattern="two", seconds=100)
    delivery.teardown()


def test_a_job_that_stops_waits_for_all_services_together() -> None:
    delivery = Delivery()
    began: Changes = [(("alpha", "version-drift", "two"), Severity.CRITICAL)]
    delivery.service_behaves(changes=began, at=len(delivery.services), behaviour=Behaviour.ANSWERS_OVERDUE)
    stopped_s = delivery.clock.now_s
    delivery.job_changes(changes=[], name="first", what=Change.STOPS)
    assert delivery.clock.now_s - stopped_s <= 12, "one deadline, and the next step of the other job"
    delivery.teardown()


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=50, stateful_step_count=30)
