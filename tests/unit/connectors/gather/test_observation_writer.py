"""ObservationWriter: redacted rows, timestamps that never decrease, and urgency only for changes."""

from collections import Counter
from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, redacted_batches
from connectors.observations.observation import (
    Observation,
    ObservationKind,
    Urgency,
    from_json,
)
from connectors.process.wall_clock import RowClock
from rules.model.identifiers import Millis, NodeId, Offset, SnapshotId
from rules.model.monitoring import (
    ConnectionResult,
    FailedObservation,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    ServerCertificate,
)
from rules.model.replica import Poll
from rules.model.witness import PeerDial, Reached, WitnessRow
from tests.scripts.log_script import endpoint, failed, poll, probed, replica, view
from tests.unit.connectors.metadata.metadata_bytes import batch, data, noop, tagged, text, tinylog

CONFIG_RECORD = 4


class RecordedRows:
    """Replaces the Publisher; records rows with their urgency."""

    def __init__(self) -> None:
        self.rows: list[tuple[Observation, bool]] = []
        self.failures: Counter[tuple[str, str, str]] = Counter()

    def add(self, row: Observation) -> None:
        self.rows.append((row, row.urgency is Urgency.URGENT))

    @property
    def quiet(self) -> list[bool]:
        return [row.urgency is Urgency.QUIET for row, _ in self.rows]

    @property
    def urgencies(self) -> list[bool]:
        return [urgent for _, urgent in self.rows]


@pytest.fixture
def publisher() -> RecordedRows:
    return RecordedRows()


@pytest.fixture
def nodes() -> NodeDirectory:
    return NodeDirectory(configured=(), cluster_id=None)


@pytest.fixture
def writer(publisher: RecordedRows, nodes: NodeDirectory) -> ObservationWriter:
    return ObservationWriter("a", publisher, nodes)  # type: ignore[arg-type]


def config_record(value: str) -> bytes:
    """ConfigRecord: broker 1, `my.custom.password`."""
    return data(CONFIG_RECORD, 0, b"\x04" + text("1") + text("my.custom.password") + text(value) + tagged())


def committed(batches: bytes, *, base: int = 0) -> CommittedRecords:
    return CommittedRecords(
        base_offset=base, last_offset=base, leader_epoch=1, high_watermark=base + 1, batches=batches
    )


def polled(*, lag: int = 0, leader: int = 1, port: int = 9093) -> Poll:
    nodes = {NodeId(1): (endpoint(1, port),)}
    return poll(replica("1", 100 - lag), leader=leader, nodes=nodes)


def write_records(writer: ObservationWriter, records: CommittedRecords) -> None:
    writer.write_records(records, redacted_batches(records.batches))


def valid_for(days: int) -> Probe:
    certificate = ServerCertificate(valid_from_ms=Millis(0), expires_at_ms=Millis(86_400_000 * days))
    return replace(PROBED, certificate=certificate)


def write(writer: ObservationWriter, event: object) -> None:
    match event:
        case bytes():
            write_records(writer, committed(event))
        case Poll():
            writer.write_poll(event)
        case LeaderView():
            writer.write_leader_view(event)
        case Probe():
            writer.write_probe(event)
        case _:
            assert isinstance(event, FailedObservation)
            writer.write_failure(event)


PROBED = probed(1, "10.0.0.1", "10.0.0.2")
CHANGED = batch([config_record("1")])
OTHER_NODE = replace(PROBED, node=NodeId(2), answer=ProbeAnswer.OTHER_NODE)
LOG_REFUSED = failed(Reason.REFUSED)
REFUSED = replace(LOG_REFUSED, source=ObservationSource.QUORUM)


@pytest.mark.parametrize(
    ("events", "urgent"),
    [
        ([batch([noop()]), b"", batch([config_record("x")])], [False, False, True]),
        ([polled(), polled(lag=5), polled(leader=2), polled(leader=2)], [True, False, True, False]),
        ([polled(port=port) for port in (9093, 9093, 9193, 9193)], [True, False, True, False]),
        ([polled(), *[replace(polled(), observers=(replica("101"),))] * 2], [True, True, False]),
        ([view(1), view(1), view(2), view(1, epoch=2), view(1, epoch=2)], [True, False, True, True, False]),
        (
            [
                PROBED,
                replace(PROBED, addresses=PROBED.addresses[::-1]),
                replace(PROBED, connection=ConnectionResult.REFUSED),
            ],
            [True, False, True],
        ),
        ([valid_for(1), valid_for(1), valid_for(90)], [True, False, True]),
        ([PROBED, OTHER_NODE, PROBED, OTHER_NODE], [True, True, False, False]),
        ([LOG_REFUSED, LOG_REFUSED, failed(Reason.NO_LEADER)], [True, False, True]),
        ([LOG_REFUSED, failed(Reason.NO_LEADER, "c2:9093")] * 2, [True, True, False, False]),
        (
            [LOG_REFUSED, REFUSED, polled(), LOG_REFUSED, REFUSED, b"", LOG_REFUSED, REFUSED],
            [True, True, True, False, True, False, True, False],
        ),
    ],
    ids=[
        *("records", "leader of a poll", "endpoint of a poll", "observers of a poll", "view", "probe", "certificate"),
        *("probes of two nodes", "reason of a failure", "failures at two endpoints"),
        "failure after a success of its source",
    ],
)
def test_only_a_change_is_urgent(
    writer: ObservationWriter, publisher: RecordedRows, events: list[object], urgent: list[bool]
) -> None:
    for event in events:
        write(writer, event)

    assert publisher.urgencies == urgent
    written = [from_json(row.payload) for row, _ in publisher.rows if row.kind is not ObservationKind.RECORDS]
    assert [*map(without_clock, written)] == [event for event in events if not isinstance(event, bytes)]
    failures = Counter(event for event in events if isinstance(event, FailedObservation))
    assert publisher.failures == {("a", event.source, event.reason): count for event, count in failures.items()}


LEADER_LOG = LeaderLog(start_offset=Offset(7), snapshot=None, tells_absence=True, begins_timestamp_ms=None)


UNANSWERED = failed(Reason.TIMED_OUT, "c1:9093", ObservationSource.QUORUM)
VIEW_UNANSWERED = failed(Reason.TIMED_OUT, view(1).endpoint, ObservationSource.LEADER_VIEW)


def advancing(second: int, *, behind: int = 0, lag: int = 0) -> Poll:
    """Returns a poll in which voter 2 has not advanced for some seconds, or caught up some seconds ago."""
    rows = (
        replica(str(node), 10 * at, fetch=10_000 - 1_000 * at, caught_up=10_000 - 1_000 * (at - lag))
        for node, at, lag in ((1, second, 0), (2, second - behind, lag))
    )
    return poll(*rows, hw=10 * second, nodes={})


def of_three(second: int, *lacking: int, since: int | None = None) -> Poll:
    """Returns a poll after an append that these voters have not fetched yet, or not since a second."""
    found = since or second - 1
    rows = (
        replica(str(node), 10 * at, fetch=10_000 - 1_000 * second, caught_up=10_000 - 1_000 * at)
        for node, at in ((node, found if node in lacking else second) for node in (1, 2, 3))
    )
    return poll(*rows, hw=10 * second, nodes={})


@pytest.mark.parametrize(
    ("events", "quiet"),
    [
        ([advancing(5), advancing(6), advancing(7)], [False, True, True]),
        # The leader has appended a record since the newest Fetch of a voter. Another second is a lag that begins.
        ([of_three(3), of_three(4, 3), of_three(5)], [False, True, True]),
        ([of_three(3), of_three(4, 3), of_three(5, 3, since=3), of_three(6)], [False, True, False, False]),
        ([of_three(3), of_three(4, 2, 3), of_three(5)], [False, True, True]),
        ([advancing(5), advancing(6, behind=1), advancing(7, behind=1)], [False, False, True]),
        ([advancing(5), replace(advancing(6), high_watermark=Offset(50))], [False, False]),
        ([advancing(6), advancing(6)], [False, False]),
        ([advancing(2), advancing(6)], [False, False]),
        ([advancing(5, lag=4), advancing(6, lag=4), advancing(7), advancing(8)], [False, True, False, True]),
        ([advancing(5), replace(advancing(6), observers=(replica("3", 60),))], [False, False]),
        ([poll(replica("1", None), hw=5, nodes={}), poll(replica("1", None), hw=6, nodes={})], [False, False]),
        (
            [advancing(5), failed(Reason.TIMED_OUT, "c1:9093", ObservationSource.QUORUM), advancing(6), advancing(7)],
            [False, False, False, True],
        ),
        # A condition may begin with the first poll that is newer than a change.
        ([advancing(5), advancing(6), PROBED, advancing(7), advancing(8)], [False, True, False, False, True]),
        # While each poll follows changes, the next changes decide; the poll after them does if there are none.
        (
            [
                advancing(5),
                CHANGED,
                advancing(6),
                CHANGED,
                advancing(7),
                CHANGED,
                advancing(8),
                advancing(9),
                advancing(10),
            ],
            [False, False, False, False, True, False, True, False, True],
        ),
        ([advancing(5), CHANGED, advancing(6), CHANGED, PROBED, advancing(7)], [False] * 6),
        ([advancing(5), CHANGED, advancing(6), CHANGED, advancing(7, lag=4)], [False] * 5),
        ([PROBED, PROBED], [False, True]),
        ([view(1), view(1), view(1, log=LEADER_LOG), view(1, log=LEADER_LOG)], [False, True, False, True]),
    ],
)
def test_a_row_is_quiet_if_everything_in_it_advances(
    writer: ObservationWriter, publisher: RecordedRows, events: list[object], quiet: list[bool]
) -> None:
    for event in events:
        write(writer, event)

    assert publisher.quiet == quiet


@pytest.mark.parametrize(
    ("events", "quiet"),
    [
        ([UNANSWERED, replace(UNANSWERED, detail="no answer after 2 s"), UNANSWERED], [False, True, True]),
        ([UNANSWERED, failed(Reason.NO_LEADER, "c1:9093", ObservationSource.QUORUM), UNANSWERED], [False] * 3),
        ([UNANSWERED, replace(UNANSWERED, leader_id=NodeId(2)), UNANSWERED], [False] * 3),
        ([UNANSWERED, failed(Reason.TIMED_OUT, "c2:9093", ObservationSource.QUORUM)], [False, False]),
        ([UNANSWERED, advancing(5), UNANSWERED, UNANSWERED], [False, False, False, True]),
        ([VIEW_UNANSWERED, VIEW_UNANSWERED, view(1), VIEW_UNANSWERED], [False, True, False, False]),
    ],
)
def test_a_failure_that_repeats_is_quiet(
    writer: ObservationWriter, publisher: RecordedRows, events: list[object], quiet: list[bool]
) -> None:
    """A cluster that is down for days, or that was removed and is still configured, costs no more than others."""
    for event in events:
        write(writer, event)

    assert publisher.quiet == quiet


def test_noops_are_quiet_but_not_the_first_ones_after_a_failure(
    writer: ObservationWriter, publisher: RecordedRows
) -> None:
    records = committed(batch([noop()]))
    write_records(writer, records)
    writer.write_failure(failed(Reason.TIMED_OUT, "c1:9093", ObservationSource.LOG))
    write_records(writer, records)
    write_records(writer, records)

    assert publisher.quiet == [False, False, False, True]


def test_what_was_observed_before_a_gap_or_long_ago_makes_no_row_quiet(publisher: RecordedRows) -> None:
    now_ms = 0
    writer = ObservationWriter("a", publisher, NodeDirectory(configured=(), cluster_id=None), steady=lambda: now_ms)  # type: ignore[arg-type]
    for at_ms in (0, 2_000, 2_900):
        now_ms = at_ms
        writer.write_probe(PROBED)
        writer.write_leader_view(view(1))
    assert publisher.quiet == [False, False, True, True, True, True]

    writer.write_gap("the gatherer was restarted")
    writer.write_probe(PROBED)
    writer.write_probe(PROBED)
    assert publisher.quiet[6:] == [False, False, True]

    for second in range(4, 20, 2):
        now_ms = 1_000 * second
        writer.write_probe(PROBED)
    writer.write_leader_view(view(1))
    assert publisher.quiet[9:] == [True] * 8 + [False]


def test_a_row_of_a_host_is_quiet_if_nothing_has_changed_since_its_last_one(publisher: RecordedRows) -> None:
    now_ms = Millis(0)
    writer = ObservationWriter("a", publisher, NodeDirectory(configured=(), cluster_id=None), steady=lambda: now_ms)  # type: ignore[arg-type]

    def seen(node: int, *, after_ms: int = 0, reached: Reached = Reached.YES, process_ms: int = 1) -> Urgency:
        nonlocal now_ms
        for _ in range(after_ms // 1_000):
            now_ms = Millis(now_ms + 1_000)
            writer.write_poll(advancing(now_ms // 1_000))
        peers = (PeerDial(node=NodeId(3), endpoint="c3:9093", reached=reached),)
        row = WitnessRow(node=NodeId(node), cluster_id=None, at_ms=Millis(0), login="", peers=peers, every_ms=10_000)
        writer.write_witness(replace(row, process_since_ms=Millis(process_ms)))
        return publisher.rows[-1][0].urgency

    assert [seen(1), seen(2)] == [Urgency.URGENT] * 2
    assert [seen(1, after_ms=10_000), seen(2)] == [Urgency.REGULAR] * 2, "the first polls are not quiet"
    assert [seen(1, after_ms=10_000), seen(2), seen(1, after_ms=20_000)] == [Urgency.QUIET] * 3
    assert seen(2, after_ms=1_000) is Urgency.REGULAR, "two are missing"
    assert seen(2) is Urgency.QUIET
    assert seen(1, reached=Reached.NO) is Urgency.URGENT
    assert seen(2) is Urgency.QUIET
    writer.write_probe(probed(1))
    assert seen(1, reached=Reached.NO) is Urgency.REGULAR
    assert seen(1, reached=Reached.NO, process_ms=2) is Urgency.URGENT, "another process"


def without_clock(event: object) -> object:
    return replace(event, clock_ahead_ms=polled().clock_ahead_ms) if isinstance(event, Poll) else event


def test_row_carries_its_log_position(writer: ObservationWriter, publisher: RecordedRows) -> None:
    write_records(writer, committed(batch([noop()], base_offset=7), base=7))
    writer.write_snapshot_pieces(SnapshotId(end_offset=9, epoch=2), 3, redacted_batches(batch([noop()])))
    records, piece = (row for row, _ in publisher.rows)

    assert (records.kind, records.base_offset, records.last_offset) == (ObservationKind.RECORDS, 7, 7)
    assert (records.leader_epoch, records.high_watermark) == (1, 8)
    assert (piece.kind, piece.base_offset, piece.last_offset, piece.leader_epoch) == (ObservationKind.SNAPSHOT, 9, 3, 2)


def test_only_credentials_are_redacted(writer: ObservationWriter, publisher: RecordedRows) -> None:
    batches = batch([config_record("planted")]) + batch([noop()], base_offset=1)
    write_records(writer, committed(batches))
    writer.write_snapshot_pieces(SnapshotId(end_offset=9, epoch=2), 0, redacted_batches(batches))

    for row, _ in publisher.rows:
        assert b"planted" not in row.payload
        assert b"my.custom.password" in row.payload
        assert len(row.payload) == len(batches)
        assert row.payload.endswith(batch([noop()], base_offset=1))


def test_the_voters_in_fetched_records_are_probed(writer: ObservationWriter, nodes: NodeDirectory) -> None:
    write_records(writer, committed(tinylog()[0]))

    assert [target.node for target in nodes.probe_targets()] == [1000, 1001, 1002]


class SetClock:
    """A wall clock that a test sets, and the monotonic clock beside it."""

    def __init__(self, wall_ms: int) -> None:
        self.wall_ms, self.steady_ms = wall_ms, 500

    def pass_ms(self, ms: int, *, step_ms: int = 0) -> None:
        self.steady_ms += ms
        self.wall_ms += ms + step_ms

    def row_clock(self, not_before_ms: int = 0) -> RowClock:
        return RowClock(not_before_ms=not_before_ms, wall=lambda: self.wall_ms, steady=lambda: self.steady_ms)


@pytest.fixture
def clock() -> SetClock:
    return SetClock(3_600_000)


def clocked(publisher: RecordedRows, clock: RowClock) -> ObservationWriter:
    return ObservationWriter("a", publisher, NodeDirectory(configured=(), cluster_id=None), clock=clock)  # type: ignore[arg-type]


def test_timestamps_of_a_cluster_never_decrease(publisher: RecordedRows, clock: SetClock) -> None:
    writer = clocked(publisher, clock.row_clock(not_before_ms=3_600_095))
    for step_ms in (0, -140, 150, -5, 0):
        clock.pass_ms(100, step_ms=step_ms)
        writer.write_failure(failed(Reason.REFUSED))
    times = [row.observed_at_ms for row, _ in publisher.rows]
    assert times == [3_600_100, 3_600_190, 3_600_310, 3_600_405, 3_600_505]


@pytest.mark.parametrize("not_before_ms", [0, 7_200_000])
def test_time_advances_after_the_clock_was_set_back(
    publisher: RecordedRows, clock: SetClock, not_before_ms: int
) -> None:
    """The clock ran an hour ahead, possibly before a restart. Hold durations still elapse, and the clock catches up."""
    row_clock = clock.row_clock(not_before_ms)
    writer = clocked(publisher, row_clock)
    if not not_before_ms:
        clock.pass_ms(1_000, step_ms=3_599_000)
        writer.write_failure(failed(Reason.REFUSED))
        clock.pass_ms(0, step_ms=-3_600_000)
    begun_ms = row_clock.read()
    for _ in range(15_000):
        clock.pass_ms(7)
        writer.write_failure(failed(Reason.REFUSED))
    times = [row.observed_at_ms for row, _ in publisher.rows]
    assert times == sorted(times)
    assert times[-1] == begun_ms + 15_000 * 7 * 9 // 10
    assert writer.ms_until(times[-1] + 90) == 90


def test_clock_that_is_set_forward_is_reported_before_the_next_row(publisher: RecordedRows, clock: SetClock) -> None:
    writer = clocked(publisher, clock.row_clock())
    writer.write_poll(polled())
    clock.pass_ms(1_000, step_ms=999)
    writer.write_poll(polled())
    clock.pass_ms(1_000, step_ms=3_600_000)
    writer.write_poll(polled())
    writer.write_poll(polled())

    kinds = [row.kind for row, _ in publisher.rows]
    quorum, failure = ObservationKind.QUORUM, ObservationKind.FAILED
    assert kinds == [quorum, quorum, failure, quorum, quorum]
    step = from_json(publisher.rows[2][0].payload)
    assert isinstance(step, FailedObservation)
    assert step.reason is Reason.CLOCK_STEPPED
    assert "set forward by 3600000 ms" in step.detail
    assert publisher.rows[2][0].observed_at_ms == publisher.rows[3][0].observed_at_ms == clock.wall_ms


def test_a_poll_says_how_far_its_row_is_ahead_of_a_clock_that_was_set_back(
    publisher: RecordedRows, clock: SetClock
) -> None:
    writer = clocked(publisher, clock.row_clock())
    for step_ms in (0, -3_600_000):
        clock.pass_ms(1_000, step_ms=step_ms)
        writer.write_poll(polled())
    polls = [(row.observed_at_ms, from_json(row.payload)) for row, _ in publisher.rows]
    assert [row.clock_ahead_ms for _, row in polls if isinstance(row, Poll)] == [0, 3_599_900]
    assert polls[-1][0] - 3_599_900 == clock.wall_ms


def test_clock_that_is_corrected_after_it_was_set_back_is_no_step_of_the_rows(
    publisher: RecordedRows, clock: SetClock
) -> None:
    writer = clocked(publisher, clock.row_clock())
    for step_ms in (0, -3_600_000, 0, 3_600_000, 0):
        clock.pass_ms(1_000, step_ms=step_ms)
        writer.write_poll(polled())
    assert {row.kind for row, _ in publisher.rows} == {ObservationKind.QUORUM}
    assert publisher.rows[-1][0].observed_at_ms == clock.wall_ms


def test_gap_is_written_before_the_first_row_after_it(publisher: RecordedRows) -> None:
    times_ms = [1_000, 2_100, 9_350, 9_350, 10_000]
    nodes = NodeDirectory(configured=(), cluster_id=None)
    writer = ObservationWriter("a", publisher, nodes, steady=lambda: times_ms.pop(0))  # type: ignore[arg-type]
    for _ in range(4):
        writer.write_poll(polled())

    kinds = [row.kind for row, _ in publisher.rows]
    quorum, failure = ObservationKind.QUORUM, ObservationKind.FAILED
    assert kinds == [quorum, quorum, failure, quorum, quorum]
    gap = from_json(publisher.rows[2][0].payload)
    assert isinstance(gap, FailedObservation)
    assert gap.reason is Reason.INTERRUPTED
    assert gap.detail == "no observations for 7250 ms: the gatherer did not run"
