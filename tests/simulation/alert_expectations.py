"""AlertExpectations: compares alerts with the conditions of the ground truth, in every second.

An alert fires for a condition that lasts longer than its hold, is firing as long as the condition lasts, and resolves
after it. No alert fires without a condition. It gets facts of the ground truth and alerts, and never the monitor.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation import log_conditions, poll_conditions, view_conditions
from tests.simulation.condition import Condition
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.simulated_thresholds import CLEAR_S, HELD_BY_EVIDENCE, HOLD_S, INHIBITED_BY, OUTLIVES_CAUSE
from tests.simulation.simulated_world import SimulatedWorld

TOLERANCE_MS = 15_000
"""Allowed beyond a rule's hold: data counts as stale after 10 s, leaders' clocks differ, one observation a second."""
EARLY_MS = 12_000
"""How much earlier than its hold an alert may fire: clocks differ, and a rule may use the log's clock."""
STALE_MS = 45_000
"""The maximum age of an observation that a rule uses: a probe's 30 s, a delayed delivery, a changed clock."""
INHIBITED_MS = 25_000
"""How long an alert that inhibits others may fire after its condition: its clear time, and delayed observations."""
CONDITIONS: Mapping[str, Callable[[SimulatedWorld], Iterator[Condition]]] = {
    "broker-fenced": log_conditions.broker_fenced,
    "broker-flapping": log_conditions.broker_flapping,
    "certificate-expiring": view_conditions.certificate_expiring,
    "committed-metadata-lost": log_conditions.committed_metadata_lost,
    "data-contract-broken": log_conditions.data_contract_broken,
    "duplicate-node-id": log_conditions.duplicate_node_id,
    "epoch-churn": log_conditions.epoch_churn,
    "failure-tolerance": poll_conditions.failure_tolerance,
    "forced-reconfiguration": log_conditions.forced_reconfiguration,
    "ghost-registration": poll_conditions.ghost_registration,
    "high-watermark-stalled": poll_conditions.high_watermark_stalled,
    "leader-clock-skew": poll_conditions.leader_clock_skew,
    "monitor-blind": view_conditions.monitor_blind,
    "no-leader": view_conditions.no_leader,
    "node-records-conflict": poll_conditions.node_records_conflict,
    "node-restarting": log_conditions.node_restarting,
    "observer-could-be-voter": poll_conditions.observer_could_be_voter,
    "observer-lagging": poll_conditions.observer_lagging,
    "open-transaction": log_conditions.open_transaction,
    "partition-stuck-recovering": log_conditions.partition_stuck_recovering,
    "quorum-shape": poll_conditions.quorum_shape,
    "raft-invariant-broken": view_conditions.raft_invariant_broken,
    "recovery-invariant-broken": log_conditions.recovery_invariant_broken,
    "snapshot-stale": log_conditions.snapshot_stale,
    "stale-voter-endpoint": view_conditions.stale_voter_endpoint,
    "unclean-election": log_conditions.unclean_election,
    "version-drift": log_conditions.version_drift,
    "views-disagree": view_conditions.views_disagree,
    "voter-change-stuck": poll_conditions.voter_change_stuck,
    "voter-disk-replaced": poll_conditions.voter_disk_replaced,
    "voter-lagging": poll_conditions.voter_lagging,
    "voter-log-regressed": poll_conditions.voter_log_regressed,
}
"""The conditions of each rule that the simulation produces."""
Subject = tuple[str, str]
"""Rule and subject of an alert."""


def conditions_of(world: SimulatedWorld) -> tuple[Condition, ...]:
    """Returns the conditions that the world has now."""
    return tuple(condition for of_rule in CONDITIONS.values() for condition in of_rule(world))


@dataclass(slots=True)
class AlertExpectations:
    """Times are the simulation's clock."""

    now_ms: int = 0
    expected: dict[Condition, int] = field(default_factory=dict)
    """The conditions that must fire, and since when."""
    possible: dict[Subject, tuple[int, int]] = field(default_factory=dict)
    """The conditions that may fire: since when, and when last."""
    caused_ms: dict[str, int] = field(default_factory=dict)
    """When each rule last may have fired."""
    observable_since_ms: int | None = None
    in_gap: bool = False
    """Whether the gatherer did not run in the last second."""
    suspended_ms: int = -(10**12)
    """When everything was last suspended: holds that count by the log's clock have passed then."""

    def record(self, now_ms: int, conditions: Iterable[Condition], *, observable: bool) -> None:
        """Records the conditions of this second, before its observations are evaluated."""
        if self.in_gap:
            # The clear time of an alert that fired before the gap begins again after it.
            self.caused_ms = {
                rule: now_ms if self.now_ms - at_ms <= INHIBITED_MS else at_ms for rule, at_ms in self.caused_ms.items()
            }
        self.now_ms = now_ms
        kept = tuple(conditions)
        for each in kept:
            place = (each.rule, each.subject)
            since_ms, last_ms = self.possible.get(place, (now_ms, now_ms))
            self.possible[place] = (since_ms if now_ms - last_ms <= STALE_MS else now_ms, now_ms)
            self.caused_ms[each.rule] = now_ms
        must = [each for each in kept if each.must and not self._is_inhibited(each.rule)]
        self.expected = {each: self.expected.get(each, now_ms) for each in must}
        if self.in_gap:
            self.in_gap = False
            due = {each: now_ms - round(HOLD_S[each.rule] * 1_000) for each in must}
            self.expected = {each: max(since_ms, due[each]) for each, since_ms in self.expected.items()}
        if not observable:
            self.observable_since_ms = None
        elif self.observable_since_ms is None:
            self.observable_since_ms = now_ms

    def not_observed(self) -> None:
        """The gatherer does not run in this second: what is due must fire once it runs again, and nothing before."""
        self.observable_since_ms = None
        self.in_gap = True

    def suspended(self, ms: int) -> None:
        """Moves the times from which alerts may be missing or late: nothing happened while everything was suspended."""
        self.suspended_ms = self.now_ms + ms
        self.expected = {each: since_ms + ms for each, since_ms in self.expected.items()}
        self.possible = {place: (since_ms, last_ms + ms) for place, (since_ms, last_ms) in self.possible.items()}
        self.caused_ms = {rule: at_ms + ms for rule, at_ms in self.caused_ms.items()}
        if self.observable_since_ms is not None:
            self.observable_since_ms += ms

    def check_alert(self, rule: str, subject: str) -> None:
        """Checks an alert that fires now.

        Raises:
            BrokenInvariant: there is no condition for it, or it is too new.
        """
        since_ms, last_ms = self.possible.get((rule, subject), (self.now_ms, -STALE_MS))
        lasted_ms = self.now_ms - since_ms
        _check(self.now_ms - last_ms <= STALE_MS, f"{rule} of {subject} fires without a reason")
        exempt = rule in HELD_BY_EVIDENCE or self.now_ms - self.suspended_ms <= HOLD_S[rule] * 1_000
        early = lasted_ms < HOLD_S[rule] * 1_000 - EARLY_MS and not exempt
        early = early and not (rule in OUTLIVES_CAUSE and self._is_inhibited(rule, within_ms=STALE_MS))
        _check(not early, f"{rule} of {subject} fires after only {lasted_ms} ms")

    def check_firing(self, firing: Collection[Subject]) -> None:
        """Checks the alerts that are firing after the observations of this second.

        Raises:
            BrokenInvariant: an alert is missing, or has not resolved.
        """
        for each, since_ms in self.expected.items():
            lasted_ms = self.now_ms - since_ms
            if lasted_ms > HOLD_S[each.rule] * 1_000 + TOLERANCE_MS:
                sentence = f"{each.rule} of {each.subject} has lasted {lasted_ms} ms and does not fire"
                _check((each.rule, each.subject) in firing, sentence)
        if self.observable_since_ms is None:
            return
        for rule, subject in firing:
            _, last_ms = self.possible.get((rule, subject), (0, 0))
            over_ms = self.now_ms - max(self.observable_since_ms, last_ms)
            delayed = over_ms > CLEAR_S * 1_000 + STALE_MS + TOLERANCE_MS
            _check(not delayed, f"{rule} of {subject} still fires {over_ms} ms after its last reason")

    def _is_inhibited(self, rule: str, within_ms: int = INHIBITED_MS) -> bool:
        causes = (self.caused_ms.get(cause) for cause in INHIBITED_BY.get(rule, ()))
        return any(at_ms is not None and self.now_ms - at_ms <= within_ms for at_ms in causes)


def _check(kept: bool, sentence: str) -> None:
    if not kept:
        raise BrokenInvariant(sentence)
