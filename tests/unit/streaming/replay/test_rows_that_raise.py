"""Rows that raise are skipped one by one: the state is the one without them, except for the recorded violation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.observations.log_event import LogAdvanced, Undecodable, VotersReplaced
from rules.alert import Alert, AlertState
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Epoch
from rules.model.monitoring import ContractViolation, Reason
from streaming.replay.cluster_monitor import EVENTS_TOGETHER, ROWS_TOGETHER, ClusterMonitor, RefusedRow
from streaming.replay.contract_violations import APPLIES, ContractViolations
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.scripts.log_script import SETTINGS, LogScript, endpoint, failed, poll, replica, voter
from tests.unit.streaming.replay.stored_state import StoredValues, stored_values

THRESHOLDS = SETTINGS.thresholds
WITHOUT_ONE_RULE = {rule: numbers for rule, numbers in THRESHOLDS.items() if rule != "no-leader"}
"""No rule can be evaluated: the evaluation of any state raises."""


@dataclass
class Stored:
    """A monitor as Spark keeps it: a blob between batches."""

    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: THRESHOLDS)
    blob: bytes | None = None

    def __post_init__(self) -> None:
        self.monitor = self.restore(self.blob)

    def restore(self, blob: bytes | None) -> ClusterMonitor:
        return ClusterMonitor.restored(blob, replace(SETTINGS, thresholds=self.thresholds))

    def observe(self, rows: Sequence[DecodedRow]) -> tuple[tuple[Alert, ...], tuple[RefusedRow, ...]]:
        self.monitor = self.restore(self.blob)
        outcome = self.monitor.apply(rows, store=True)
        self.blob = self.monitor.stored
        assert self.monitor.to_bytes() == self.blob
        return outcome.alerts, tuple(one for one in outcome.failed if one.reason.startswith("could not be applied"))

    def violation(self, contract: str) -> ContractViolation:
        (found,) = [one for one in self.monitor.machine.contract_violations.violations if one.contract == contract]
        return found


def history() -> list[DecodedRow]:
    """Records and polls, then no leader, then healthy again."""
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    script.topic("orders")
    rows = [script.read()]
    for second in range(24):
        if 6 <= second < 14:
            rows += [script.row(failed(Reason.NO_LEADER, place), after_ms=333) for place in SETTINGS.bootstrap]
        else:
            script.partition("orders", second, 1, 2, 3)
            rows += [script.read(after_ms=500), script.row(poll(*map(replica, ("1-a", "2-b", "3-c"))), after_ms=500)]
    return rows


ROWS = history()


def raising(row: DecodedRow) -> DecodedRow:
    """Returns the row with an event after its own that no state can apply: what came before it is applied in part."""
    offset: Any = "no number"
    bad = LogAdvanced(last_offset=offset, leader_epoch=Epoch(1), high_watermark=None, newest_timestamp_ms=None)
    return replace_events(row, (*tuple(row.events), bad))


def undecodable(row: DecodedRow) -> DecodedRow:
    """Returns a row of the same time that changes nothing but to record a violation."""
    return replace_events(row, (Undecodable(offset=None, reason="r", length=0),))


def replace_events(row: DecodedRow, events: tuple[Any, ...]) -> DecodedRow:
    return DecodedRow(row.sequence, row.observed_at_ms, events)


def values(monitor: ClusterMonitor) -> tuple[TrackedConditions, StoredValues]:
    """Returns everything that the monitor stores."""
    return monitor.tracked, stored_values(monitor.machine)


def state_without_violations(monitor: ClusterMonitor) -> tuple[TrackedConditions, StoredValues]:
    """Returns the stored state without its violations of contracts, and without the alert about them."""
    machine = monitor.machine
    machine.contract_violations, machine.undecodable = ContractViolations(), 0
    conditions = monitor.tracked.conditions.items()
    kept = {name: one for name, one in conditions if one.rule != "data-contract-broken"}
    monitor.tracked = replace(monitor.tracked, conditions=kept)
    return values(monitor)


def of_the_quorum(alerts: Sequence[Alert]) -> list[Alert]:
    return [alert for alert in alerts if alert.rule != "data-contract-broken"]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, len(ROWS) - 1), max_size=12), st.lists(st.integers(0, len(ROWS)), max_size=6))
def test_state_and_alerts_are_those_without_the_rows_that_raise(bad: set[int], cuts: list[int]) -> None:
    rows = [raising(row) if number in bad else row for number, row in enumerate(ROWS)]
    stored = Stored()
    alerts: list[Alert] = []
    failures: list[RefusedRow] = []
    for start, end in pairwise(sorted({0, len(rows), *cuts})):
        more, skipped = stored.observe(rows[start:end])
        alerts += more
        failures += skipped

    without = stored.restore(None)
    expected = without.apply([undecodable(row) if number in bad else row for number, row in enumerate(ROWS)]).alerts

    assert [one.sequence for one in failures] == [ROWS[number].sequence for number in sorted(bad)]
    assert of_the_quorum(alerts) == of_the_quorum(expected)
    if bad:
        assert stored.violation(APPLIES).rows == len(bad)
        assert {alert.subject for alert in alerts if alert.rule == "data-contract-broken"} == {APPLIES}
    assert state_without_violations(stored.monitor) == state_without_violations(without)


def test_the_reason_names_type_and_place_and_quotes_no_content() -> None:
    stored = Stored()
    _, (failure,) = stored.observe([ROWS[0], raising(ROWS[1]), ROWS[2]])

    assert (failure.sequence, failure.offset) == (ROWS[1].sequence, 3)
    assert failure.reason.startswith("could not be applied: TypeError in streaming.replay.")
    assert "no number" not in failure.reason
    violation = stored.violation(APPLIES)
    assert (violation.example, violation.grave, violation.sequence) == (failure.reason, True, ROWS[1].sequence)


def test_a_state_that_cannot_be_stored_is_the_one_before_the_row() -> None:
    script = LogScript()
    script.leader(1)
    first = script.read()
    name = replace(endpoint(1), host="\ud800")
    script.write(VotersReplaced(at=script.at(), voters=(replace(voter("1-a"), endpoints=(name,)),)))
    unstorable, last = script.read(), script.row(poll(replica("1-a")))

    stored = Stored()
    _, failures = stored.observe([first, unstorable, last])

    assert [one.sequence for one in failures] == [unstorable.sequence]
    assert stored.monitor.machine.sequence == last.sequence
    assert stored.monitor.machine.log.position == first.events[-1].last_offset  # type: ignore[index]


def test_a_state_that_cannot_be_evaluated_goes_on_and_is_reported() -> None:
    """Every rule is unknown then; the rows are not the cause, so they are applied."""
    stored = Stored(thresholds=WITHOUT_ONE_RULE)
    alerts, failures = stored.observe(ROWS[:9])

    assert [(alert.rule, alert.subject, alert.state) for alert in alerts] == [
        ("data-contract-broken", APPLIES, AlertState.FIRING)
    ]
    assert len(failures) == 9
    healthy = Stored()
    healthy.observe(ROWS[:9])
    assert stored.monitor.machine.log.position == healthy.monitor.machine.log.position >= 0

    fixed = Stored(blob=stored.blob)
    assert fixed.observe(ROWS[9:12])[1] == ()
    assert fixed.monitor.evaluation().failed == {}


def test_a_row_that_raises_where_the_state_cannot_be_evaluated_is_skipped_and_reported() -> None:
    stored = Stored(thresholds=WITHOUT_ONE_RULE)
    alerts, (failure,) = stored.observe([raising(ROWS[0])])

    assert [(alert.rule, alert.subject) for alert in alerts] == [("data-contract-broken", APPLIES)]
    assert stored.violation(APPLIES).sequence == failure.sequence == stored.monitor.machine.sequence == ROWS[0].sequence
    assert stored.monitor.machine.log.position == -1, "nothing of the row is applied"


def test_the_alert_for_a_state_that_cannot_be_evaluated_has_the_cluster_id() -> None:
    healthy = Stored()
    healthy.observe(ROWS[:9])
    (alert,), _ = Stored(thresholds=WITHOUT_ONE_RULE, blob=healthy.blob).observe(ROWS[9:10])

    assert (alert.rule, alert.cluster_id) == ("data-contract-broken", "cluster-id")


def test_rows_after_which_nothing_can_be_evaluated_fail_and_leave_the_state_as_it_was() -> None:
    """Also the rule for violated contracts raises: its thresholds are missing."""
    stored = Stored(thresholds={"no-leader": THRESHOLDS["no-leader"]})
    alerts, failures = stored.observe(ROWS[:3])

    assert alerts == ()
    assert [one.sequence for one in failures] == [row.sequence for row in ROWS[:3]]
    assert stored.monitor.machine.sequence == ROWS[2].sequence
    assert stored.monitor.machine.log.position == Stored().monitor.machine.log.position


def test_a_skipped_row_is_not_tried_again() -> None:
    stored = Stored()
    stored.observe([ROWS[0], raising(ROWS[1])])
    before = stored.blob

    assert stored.observe([ROWS[0], raising(ROWS[1])]) == ((), ())
    assert stored.blob == before


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, len(ROWS) - 1), max_size=12))
def test_look_back_skips_the_rows_that_the_job_skips(bad: set[int]) -> None:
    rows = [raising(row) if number in bad else row for number, row in enumerate(ROWS)]
    unevaluated, job = look_back(), Stored()

    failed = applied(unevaluated, rows)
    _, failed_in_job = job.observe(rows)

    assert failed == [*failed_in_job]
    assert len(failed) == len(bad)
    assert stored_values(unevaluated.machine) == stored_values(job.monitor.machine)
    assert unevaluated.machine.quorum() == job.monitor.machine.quorum()
    assert unevaluated.tracked == TrackedConditions()


def look_back() -> ClusterMonitor:
    return ClusterMonitor(SETTINGS, evaluates_from_ms=None)


def applied(monitor: ClusterMonitor, rows: Sequence[DecodedRow]) -> list[RefusedRow]:
    """Applies rows one by one; returns those that could not be applied."""
    failed = [one for row in rows for one in monitor.apply((row,)).failed]
    return [*failed, *monitor.apply((), store=True).failed]


def test_a_row_long_after_the_stored_form_is_skipped_alone() -> None:
    first, *_ = ROWS
    events = tuple(first.events)
    many = [DecodedRow(number, first.observed_at_ms, events) for number in range(2 * ROWS_TOGETHER + 20)]
    bad = 2 * ROWS_TOGETHER + 10
    monitor, without = look_back(), look_back()

    failed = applied(monitor, [*many[:bad], raising(many[bad]), *many[bad + 1 :]])
    applied(without, many)

    assert [one.sequence for one in failed] == [bad]
    assert monitor.machine.sequence == without.machine.sequence
    assert monitor.machine.log.position == without.machine.log.position


def test_alerts_of_rows_before_the_one_that_raises_are_returned_once() -> None:
    """Also those of rows after the newest stored form, which are applied again."""
    monitor, expected = Stored().restore(None), Stored().restore(None)
    alerts = [alert for row in ROWS for alert in monitor.apply((row,)).alerts]
    last = monitor.apply((raising(replace_sequence(ROWS[-1])),)).alerts

    assert alerts == [*expected.apply(ROWS).alerts]
    assert [alert.rule for alert in alerts] == ["no-leader"]
    assert [alert.rule for alert in last] == ["data-contract-broken"]


def replace_sequence(row: DecodedRow) -> DecodedRow:
    return DecodedRow(row.sequence + 1, row.observed_at_ms, row.events)


def test_large_rows_are_not_kept_until_many_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cluster's snapshot has rows of many events: memory must not grow with it."""
    stores, stored = Machine.to_bytes, []

    def counting(machine: Machine) -> bytes:
        stored.append(machine.sequence)
        return stores(machine)

    monkeypatch.setattr(Machine, "to_bytes", counting)
    (event, *_) = ROWS[0].events
    large = [DecodedRow(number, ROWS[0].observed_at_ms, (event,) * EVENTS_TOGETHER) for number in range(4)]
    monitor = look_back()

    assert not [one for row in large for one in monitor.apply((row,)).failed]
    assert stored == [0, 1, 2, 3]
