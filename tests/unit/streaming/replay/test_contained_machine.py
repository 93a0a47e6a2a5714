"""Recorded rows that raise are skipped as in the job: the state of `status --journal` and `audit` is the job's."""

from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contained_machine import EVENTS_TOGETHER, ROWS_TOGETHER, ContainedMachine
from streaming.replay.contained_replay import FailedRow
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.stored_state import stored_values
from tests.unit.streaming.replay.test_contained_replay import ADDRESSES, ROWS, Stored, raising

UNSTORABLE_FROM = 5
"""An offset that the log reaches with the sixth of ROWS."""


def new_machine(kind: type[Machine] = Machine) -> ContainedMachine:
    return ContainedMachine(kind(ClusterSettings(name="test", bootstrap=ADDRESSES)))


def applied(contained: ContainedMachine, rows: list[DecodedRow]) -> list[FailedRow]:
    failed = [one for row in rows for one in contained.apply(row)]
    return [*failed, *contained.finish()]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, len(ROWS) - 1), max_size=12))
def test_state_and_failed_rows_are_the_jobs(bad: set[int]) -> None:
    rows = [raising(row) if number in bad else row for number, row in enumerate(ROWS)]
    contained, job = new_machine(), Stored()

    failed = applied(contained, rows)
    _, failed_in_job = job.observe(rows)

    assert failed == [*failed_in_job]
    assert len(failed) == len(bad)
    assert stored_values(contained.machine) == stored_values(job.monitor.machine)
    assert contained.machine.quorum() == job.monitor.machine.quorum()


def test_a_row_long_after_the_stored_form_is_skipped_alone() -> None:
    first, *_ = ROWS
    events = tuple(first.events)
    many = [DecodedRow(number, first.observed_at_ms, events) for number in range(2 * ROWS_TOGETHER + 20)]
    bad = 2 * ROWS_TOGETHER + 10
    contained, without = new_machine(), new_machine()

    failed = applied(contained, [*many[:bad], raising(many[bad]), *many[bad + 1 :]])
    applied(without, many)

    assert [one.sequence for one in failed] == [bad]
    assert contained.machine.sequence == without.machine.sequence
    assert contained.machine.log.position == without.machine.log.position


class UnstorableMachine(Machine):
    """A machine that a certain row leaves in a state that cannot be stored, as a bug of the replay would."""

    def to_bytes(self) -> bytes:
        if self.log.position >= UNSTORABLE_FROM:
            raise TypeError("a value of no known type")
        return super().to_bytes()


def test_row_after_which_the_state_cannot_be_stored_is_found_and_skipped() -> None:
    contained = new_machine(UnstorableMachine)

    failed = applied(contained, ROWS[:6])

    assert [one.sequence for one in failed] == [ROWS[5].sequence]
    assert contained.machine.log.position == UNSTORABLE_FROM - 1


class CountingMachine(Machine):
    """Counts how often its state was stored."""

    stored = 0

    def to_bytes(self) -> bytes:
        CountingMachine.stored += 1
        return super().to_bytes()


def test_large_rows_are_not_kept_until_many_came() -> None:
    """A large cluster's snapshot has rows of many events: memory must not grow with it."""
    CountingMachine.stored = 0
    contained = new_machine(CountingMachine)
    (event, *_) = ROWS[0].events
    large = [DecodedRow(number, ROWS[0].observed_at_ms, (event,) * EVENTS_TOGETHER) for number in range(4)]

    assert not [one for row in large for one in contained.apply(row)]

    assert CountingMachine.stored == len(large)
