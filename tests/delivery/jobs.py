"""Jobs that share one store: each evaluates what is wrong, and the one that has the role notifies.

Everything is the product's but the time, the clusters and the lease, which needs a PostgreSQL.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection

from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, StoreError, UnavailableStoreError
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Outcome, Sink
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import SilenceStore
from connectors.store.lease import LEASE_S, JobReport, Lease
from connectors.store.tables import sqlite_database
from rules.alert import Alert
from rules.finding import Severity
from rules.firing import EndedAlert, Firing, resolved_alert
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification
from streaming.pipeline.active_role import ActiveRole
from streaming.pipeline.notifying import Notifying
from streaming.status.status_store import Engine, StatusStore
from tests.delivery.services import Service, Truth
from tests.delivery.simulated_time import SimulatedClock
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

Condition: TypeAlias = tuple[str, str, str]
"""Cluster, rule and subject."""


class Killed(BaseException):
    """The process ends: nothing may catch this."""


class Fault(Enum):
    """What happens at one event of a job's step: a commit, a write to a file, or a call to a service."""

    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"
    ANSWER_LOST = "the store commits, and does not answer"
    STORE_DOWN = "the store does not answer"
    DISK_FULL = "the disk is full"
    STALLED_BEFORE = "stopped for 20 s, and then the store commits"
    STALLED_AFTER = "stopped for 20 s after the store has committed"


@dataclass
class Faults:
    """Where something happens in the step in progress."""

    fault: Fault | None = None
    at: int = 0
    part: float = 0.5
    """Of a write to a file that a kill cuts off."""
    dead: bool = False
    """The process was killed: it does nothing any more."""
    on_stall: Callable[[], None] = lambda: None

    def arm(self, fault: Fault | None, at: int) -> None:
        self.fault, self.at, self.dead = fault, at, False

    def event(self, *possible: Fault) -> Fault | None:
        """Returns what happens at this event, if anything."""
        if self.dead:
            raise Killed
        if self.fault is None or self.fault not in possible:
            return None
        self.at -= 1
        if self.at >= 0:
            return None
        found, self.fault = self.fault, None
        return found

    def die(self) -> None:
        self.dead = True
        raise Killed

    def at_commit(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that commits, and what may happen then."""

        def commit(store: Any, *steps: Any) -> Any:
            writes = any(parameters for _, parameters in steps)
            found = self.event(*(Fault if writes else ()))
            match found:
                case Fault.KILLED_BEFORE:
                    self.die()
                case Fault.STORE_DOWN:
                    raise UnavailableStoreError("the store does not answer")
                case Fault.DISK_FULL:
                    raise StoreError("the disk is full")
                case Fault.STALLED_BEFORE:
                    self.on_stall()
                case _:
                    pass
            result = real(store, *steps)
            if found is Fault.STALLED_AFTER:
                self.on_stall()
            if found is Fault.KILLED_AFTER:
                self.die()
            if found is Fault.ANSWER_LOST:
                raise UnavailableStoreError("the store does not answer")
            return result

        return commit

    def at_file(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that changes a file, and what may happen then."""

        def change(*args: Any) -> Any:
            found = self.event(Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
            if found is None:
                return real(*args)
            if real is _WRITE:
                real(args[0], args[1][: int(len(args[1]) * self.part)])
            elif found is Fault.KILLED_AFTER:
                real(*args)
            return self.die()

        return change


_WRITE = os.write


@dataclass
class SharedLease:
    """The lease as the store has it."""

    clock: SimulatedClock
    token: int = 0
    expires_at_s: float = 0.0
    reports: dict[str, tuple[float, JobReport]] = field(default_factory=dict)


class SimulatedLease(Lease):
    """One job's view of it."""

    def __init__(self, shared: SharedLease, job: str, faults: Faults) -> None:
        self._shared, self._job, self._faults = shared, job, faults
        self._token: int | None = None

    @property
    def held(self) -> bool:
        return self._token == self._shared.token and self._shared.clock.now_s < self._shared.expires_at_s

    def report(self, state: JobReport) -> Sequence[JobReport]:
        now_s = self._shared.clock.now_s
        others = [
            one for job, (at_s, one) in self._shared.reports.items() if job != self._job and now_s - at_s < LEASE_S
        ]
        self._shared.reports[self._job] = now_s, state
        return others

    def take(self) -> bool:
        if self._shared.clock.now_s >= self._shared.expires_at_s:
            self._shared.token += 1
            self._token = self._shared.token
            self._extend()
        return self.owned

    def renew(self) -> None:
        if self._faults.event(Fault.STALLED_BEFORE):
            self._faults.on_stall()
        self._check()

    def fence(self, connection: Connection) -> None:
        self._check()

    def give_up(self) -> None:
        if self._token == self._shared.token:
            self._shared.expires_at_s = 0.0
        self._token = None

    def _check(self) -> None:
        if self._token != self._shared.token:
            self._token = None
            raise LeaseLostError("another job notifies now")
        self._extend()

    def _extend(self) -> None:
        self._shared.expires_at_s = self._shared.clock.now_s + LEASE_S


@dataclass
class Monitor:
    """What a job knows of the clusters: its state after each batch, which Spark keeps."""

    known: Mapping[Condition, Alert] = field(default_factory=dict)
    evaluated_ms: Millis = NOON_MS

    def evaluated(
        self, conditions: Mapping[Condition, Severity], over: Sequence[Condition], now_ms: Millis
    ) -> tuple["Monitor", Mapping[str, Firing]]:
        """Returns the next state, and what fires in each cluster; `over`: what began and ended since the last."""
        known, ended = {**self.known}, []
        for condition in [*known]:
            if condition not in conditions:
                fired = known.pop(condition)
                ended.append(EndedAlert(fired=fired, resolved=resolved_alert(fired, now_ms, "It is over.")))
        for condition in over:
            fired = found(condition, Severity.CRITICAL, Millis(now_ms - 2))
            ended.append(EndedAlert(fired=fired, resolved=resolved_alert(fired, Millis(now_ms - 1), "It is over.")))
        for condition, severity in conditions.items():
            before = known.get(condition)
            if before is None:
                known[condition] = found(condition, severity, now_ms)
            elif before.severity is not severity:
                known[condition] = replace(before, severity=severity, observed_at_ms=now_ms)
        firings = {
            cluster: Firing(
                cluster=cluster,
                evaluated_ms=now_ms,
                alerts=tuple(one for one in known.values() if one.cluster == cluster),
                ended=tuple(one for one in ended if one.fired.cluster == cluster),
            )
            for cluster in ("alpha", "beta")
        }
        return Monitor(known=known, evaluated_ms=now_ms), firings


def found(condition: Condition, severity: Severity, now_ms: Millis) -> Alert:
    """Returns an alert that begins."""
    cluster, rule, subject = condition
    times: dict[str, Any] = {"started_at_ms": now_ms, "observed_at_ms": now_ms, "due_at_ms": now_ms}
    return alert(subject, cluster=cluster, cluster_id=cluster, rule=rule, severity=severity, **times)


class ServiceSink:
    """The sink of a service, in one job."""

    def __init__(self, service: Service, job: "Job") -> None:
        self._service, self._job = service, job
        self.options = service.options

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        found = self._job.faults.event(Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
        if found is Fault.KILLED_BEFORE:
            self._job.faults.die()
        outcomes = self._service.call(notifications, self._job.truth())
        if found is Fault.KILLED_AFTER:
            self._job.faults.die()
        return outcomes


class Job:
    """One process. It begins with a monitor's state, and with the batch that it did not commit."""

    def __init__(
        self,
        name: str,
        folder: Path,
        services: Sequence[Service],
        shared: SharedLease,
        faults: Faults,
        truth: Callable[["Job"], Truth],
        monitor: Monitor,
    ) -> None:
        self.name, self.faults, self.monitor = name, faults, monitor
        self.repeats: tuple[Monitor, Mapping[str, Firing]] | None = None
        self.engine = Engine.SPARK
        """Both find the same, as they evaluate the same rows."""
        self._sparks: Mapping[str, Firing] = {}
        """What Spark has found last: it is silent since, or delivers that once more."""
        self.truth: Callable[[], Truth] = lambda: truth(self)
        self._services, self._file = services, folder / "alerts.jsonl"
        self.database = sqlite_database(folder)
        self.lease = SimulatedLease(shared, name, faults)
        self.role = ActiveRole(self.lease, self._report, settle=lambda then: self.notifying.settle(then))
        silences, acknowledgements = SilenceStore(self.database), AcknowledgementStore(self.database)
        self._sinks: dict[str, Sink] = {}
        self.reported: dict[str, int] = dict.fromkeys((one.name for one in services), 0)
        """By sink: how many deliveries it has reported."""
        self.notifying = Notifying(
            Ledger(self.database, self.lease),
            self.sinks(),
            store=StatusStore(["alpha", "beta"]),
            role=self.role,
            holds=lambda _: (*silences.current(), *acknowledgements.current()),
        )

    def sinks(self, *, replaced: bool = False) -> Sequence[Sink]:
        """Returns the configured sinks: one that is the same as before, unless they are all opened again."""
        before = {} if replaced else self._sinks
        self._sinks = {"file": before.get("file") or JsonlSink(self._file)}
        for service in self._services:
            if service.configured:
                known = before.get(service.name)
                same = known is not None and known.options == service.options
                self._sinks[service.name] = known if known is not None and same else ServiceSink(service, self)
        return [*self._sinks.values()]

    def _report(self) -> JobReport:
        return JobReport(evaluated_ms=self.monitor.evaluated_ms, sinks_fail=self.notifying.people_not_reached)

    def takes_turn(self) -> None:
        """Takes, renews or gives up the role, as its thread does each two seconds."""
        self.role._turn()

    def delivers(self, next_state: Monitor, firings: Mapping[str, Firing]) -> bool:
        """Delivers a batch, and then commits it; returns whether sinks were called, or could have been."""
        self.repeats = next_state, firings
        if self.engine is Engine.SPARK:
            self._sparks = firings
        else:
            for one in self._sparks.values():
                self.notifying.put(one)
        for one in firings.values():
            self.notifying.put(one, self.engine)
            if self.engine is Engine.SPARK:
                self.notifying.hand_back(one.cluster)
        report = self.notifying.send()
        for name, result in report.sinks.items():
            if name in self.reported:
                self.reported[name] += result.delivered
        self.monitor, self.repeats = next_state, None
        return bool(report.sinks)

    def close(self) -> None:
        self.database.close()
