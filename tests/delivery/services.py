"""Services: what each sink's far end accepted, and what must be true of each notification that it accepts.

A service stays when a job is killed or its sinks are replaced: it is the only witness of what was sent.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from connectors.sinks.sink import Delivered, DeliveryMode, DeliveryOptions, Outcome, Rejected, Retry
from rules.alert import Alert, AlertId, AlertKey, AlertState
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from rules.notifications.route import Route
from tests.delivery.simulated_time import SimulatedClock

LIMIT_S = 30.0
"""What a service that limits requests asks for."""


class Behaviour(Enum):
    """What a service does with a call."""

    ACCEPTS = "accepts"
    IS_DOWN = "is down"
    ANSWERS_IN_TIME = "answers after 0.4 s"
    ANSWERS_LATE = "answers after 5 s"
    ANSWERS_OVERDUE = "answers after 30 s"
    LOSES_ANSWERS = "accepts, and the answer is lost"
    LIMITS = "asks to wait"
    REJECTS = "accepts only minimal documents"
    REFUSES_ONE = "refuses what is about subject one"
    STOPS = "accepts the first, and does not get to the others"
    RAISES = "raises an exception"
    MISCOUNTS = "returns too few outcomes"


DELAYS_S = {Behaviour.ANSWERS_IN_TIME: 0.4, Behaviour.ANSWERS_LATE: 5.0, Behaviour.ANSWERS_OVERDUE: 30.0}


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the world knows when a job calls a service."""

    job: str
    may_notify: bool
    """Whether this job has the role."""
    position: Callable[[AlertKey], int]
    """Returns the place of a transition in the ledger."""
    ended: Callable[[AlertId], bool]
    """Whether the newest transition of an alert in the ledger is its end."""
    silenced: Callable[[Alert], bool]
    acknowledged: Callable[[Alert], bool]


@dataclass
class Service:
    """The far end of one sink, and the options of the sink."""

    name: str
    clock: SimulatedClock
    mode: DeliveryMode = DeliveryMode.INCIDENTS
    repeat_s: float | None = None
    expires: bool = False
    shows_acknowledgements: bool = False
    route: Route = field(default_factory=Route)
    configured: bool = True
    behaviour: Behaviour = Behaviour.ACCEPTS
    accepted: dict[AlertId, list[Alert]] = field(default_factory=dict)
    """The transitions of each alert that it accepted, in the order of their first acceptance."""
    newest: dict[AlertId, Alert] = field(default_factory=dict)
    """The transition that it was sent last."""
    incidents: dict[str, Notification] = field(default_factory=dict)
    """The newest notification of each incident that it accepted."""
    notified_at_ms: dict[str, Millis] = field(default_factory=dict)
    attempted: set[AlertId] = field(default_factory=set)
    """What it was sent, accepted or not."""
    unconfirmed: set[AlertKey | str] = field(default_factory=set)
    """What it accepted (transitions, and ids of incidents), and perhaps no job has recorded: it may be sent again."""
    answered: defaultdict[str, set[AlertKey | str]] = field(default_factory=lambda: defaultdict(set))
    """By job: what it accepted, and answered so."""
    answered_at_s: float = 0.0
    """When the newest answer is known; 0: at once."""
    violation: AssertionError | None = None
    """The first thing that must not be."""
    delivered: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By job: how many notifications it answered as accepted."""

    @property
    def options(self) -> DeliveryOptions:
        return DeliveryOptions(
            name=self.name,
            mode=self.mode,
            repeat_s=self.repeat_s,
            expires=self.expires,
            shows_acknowledgements=self.shows_acknowledgements,
            route=self.route,
        )

    @property
    def notifies_people(self) -> bool:
        return self.mode is DeliveryMode.INCIDENTS

    @property
    def shown(self) -> Mapping[AlertId, Alert]:
        """What it shows as firing."""
        listed = (each for one in self.incidents.values() for each in one.firing)
        return {
            each.alert_id: each for each in (listed if self.notifies_people else self.newest.values()) if fires(each)
        }

    def confirm(self, job: str, began_s: float) -> None:
        """A step of a job that began then has gone well: it has recorded each answer that was known."""
        if self.answered_at_s <= began_s:
            self.unconfirmed -= self.answered.pop(job, set())

    # --- a call ------------------------------------------------------------------------------------------------------

    def call(self, notifications: Sequence[Notification], truth: Truth) -> Sequence[Outcome]:
        """Accepts what it does; returns the outcomes."""
        outcomes = [self._outcome(at, one) for at, one in enumerate(notifications)]
        accepted = [one for one, outcome in zip(notifications, outcomes, strict=True) if isinstance(outcome, Delivered)]
        sent = [each for one in notifications for each in one.new_transitions]
        for one in accepted:
            try:
                self._check(one, sent, truth)
            except AssertionError as problem:
                # The job takes an exception of a sink for a failed call.
                self.violation = self.violation or problem
            self._accept(one)
        self.attempted |= {each.alert_id for one in notifications for each in one.new_transitions}
        match self.behaviour:
            case Behaviour.LOSES_ANSWERS:
                return [Retry(reason="the answer was lost")] * len(notifications)
            case Behaviour.RAISES:
                raise RuntimeError("connection lost")
            case Behaviour.MISCOUNTS:
                return [Delivered()] * (len(notifications) - 1)
            case _:
                pass
        self.answered[truth.job] |= {each.key for one in accepted for each in one.new_transitions}
        self.answered[truth.job] |= {one.incident for one in accepted}
        self.delivered[truth.job] += len(accepted)
        self.clock.answer_after_s = DELAYS_S.get(self.behaviour, 0.0)
        self.answered_at_s = self.clock.now_s + self.clock.answer_after_s if self.clock.answer_after_s else 0.0
        return outcomes

    def _outcome(self, at: int, one: Notification) -> Outcome:
        match self.behaviour:
            case Behaviour.IS_DOWN | Behaviour.RAISES | Behaviour.MISCOUNTS:
                return Retry(reason="connection refused")
            case Behaviour.LIMITS:
                return Retry(reason="too many requests", after_s=LIMIT_S)
            case Behaviour.REJECTS if any(each.evidence for each in one.alerts):
                return Rejected(reason="too long")
            case Behaviour.REFUSES_ONE if one.root.subject == "one" and self.notifies_people:
                return Retry(reason="HTTP 403")
            case Behaviour.STOPS if at:
                return Retry(reason="deadline exceeded", attempted=False)
        return Delivered()

    def _accept(self, one: Notification) -> None:
        for each in one.new_transitions:
            before = self.accepted.setdefault(each.alert_id, [])
            if each.key not in {other.key for other in before}:
                before.append(each)
            self.newest[each.alert_id] = each
            self.unconfirmed.add(each.key)
        self.unconfirmed.add(one.incident)
        self.incidents[one.incident] = one
        self.notified_at_ms[one.incident] = self.clock.wall_ms()

    # --- what must be true of a notification that it accepts ----------------------------------------------------------

    def _check(self, one: Notification, sent: Sequence[Alert], truth: Truth) -> None:
        assert truth.may_notify, f"{truth.job} calls {self.name} and may not notify"
        assert (one.reason is NotifyReason.RESOLVED) == (not one.firing)
        assert {each.fingerprint for each in one.new_transitions} <= {each.fingerprint for each in one.alerts}
        for at, each in enumerate(one.new_transitions):
            self._check_transition(each, one.new_transitions[:at], truth)
        for id_ in {each.alert_id for each in one.new_transitions} - self.accepted.keys():
            # A record gets the milder ones too that were pending with the first that matches.
            routed = any(self.route.matches(each) for each in sent if each.alert_id == id_)
            # What it may have, by another route than now, ends there.
            may_be_open = id_ in self.attempted and truth.ended(id_)
            assert routed or may_be_open, f"{self.name}: {id_} is not routed here"
        if self.notifies_people:
            assert one.incident in self.incidents or not one.previously_notified
            self._check_reason(one, truth)
            self._check_holds(one, truth)

    def _check_transition(self, each: Alert, earlier: Sequence[Alert], truth: Truth) -> None:
        before = [*self.accepted.get(each.alert_id, ()), *(one for one in earlier if one.alert_id == each.alert_id)]
        if each.key in {one.key for one in before}:
            assert each.key in self.unconfirmed, f"{self.name}: {each.key} is sent again"
            return
        newer = [one.key for one in before if truth.position(one.key) > truth.position(each.key)]
        assert newer == [], f"{self.name}: {each.key} is sent after {newer}"
        assert fires(each) or any(map(fires, before)), f"{self.name}: {each.key} did not fire here"

    def _check_reason(self, one: Notification, truth: Truth) -> None:
        if one.new_transitions:
            assert one.reason is not NotifyReason.REPEATED
            return
        assert one.incident in self.incidents
        if one.reason is NotifyReason.ACKNOWLEDGED:
            assert self.shows_acknowledgements
            return
        assert one.reason is NotifyReason.REPEATED
        assert self.repeat_s is not None
        passed_ms = self.clock.wall_ms() - self.notified_at_ms[one.incident]
        again = one.incident in self.unconfirmed
        assert again or passed_ms >= 1_000 * (self.repeat_s - 40), f"{self.name}: repeated after {passed_ms} ms"
        quiet = all(truth.silenced(each) or truth.acknowledged(each) for each in one.firing)
        assert self.expires or not quiet, f"{self.name}: people are reminded of what is held back"

    def _check_holds(self, one: Notification, truth: Truth) -> None:
        new = {each.key for each in one.new_transitions}
        for each in one.firing:
            if each.key in new:
                assert not truth.silenced(each), f"{self.name}: {each.key} is silenced"
                if each.alert_id not in self.attempted:
                    assert not truth.acknowledged(each), f"{self.name}: {each.key} is acknowledged"
                causes = {other.rule for other in one.firing if other.cluster_id == each.cluster_id}
                assert causes.isdisjoint(RULES[each.rule].inhibited_by), f"{self.name}: {each.key} is inhibited"


def fires(one: Alert) -> bool:
    """Returns whether a transition is one of an alert that fires."""
    return one.state is AlertState.FIRING
