"""One lie of a peer, then minutes of truth: the quorum is the one without the lie, and the lie is reported."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from connectors.observations.log_event import EpochDrop, LogAdvanced
from connectors.observations.observation import EndpointProbed, Event, LeaderViewPolled, NodeEndpoints, QuorumPolled
from connectors.observations.partition_run import each_event
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Answer, Connection, Invariant, Resolution
from rules.model.quorum import Quorum
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.log_script import LogScript, again, apply, endpoint, machine, poll, replica

LIE_AT = 40
TRUTH_S = 120
"""More than everything that expires by itself: polls are rejected for 30 s, samples are kept for 60 s."""
MOST = 2**62
EPOCH_MOST = 2**31 - 1
STOPPED_AT = 20
"""When voter 3 stopped fetching, in epoch 1; the epoch is 2 since."""

Lie = Callable[[Any], Event]


def polled(script: LogScript, second: int) -> QuorumPolled:
    """Returns the truth: voter 3 stops at its offset, and the leader's clock goes on."""
    clock = 50_000 + 1_000 * second
    rows = []
    for name in ("1-a", "2-b", "3-c"):
        stopped = name == "3-c" and second >= STOPPED_AT
        row = replica(name, end=43 if stopped else script.offset)
        at = Millis(50_000 + 1_000 * STOPPED_AT if stopped else clock)
        rows.append(replace(row, last_fetch_ms=at, last_caught_up_ms=at))
    return poll(*rows, epoch=script.epoch, hw=script.offset)


def view(script: LogScript, node: int) -> LeaderViewPolled:
    return LeaderViewPolled(
        endpoint=f"c{node}:9093",
        node=NodeId(node),
        this_cluster=True,
        leader_id=NodeId(1),
        leader_epoch=Epoch(script.epoch),
        log=None,
    )


def probe(node: int) -> EndpointProbed:
    return EndpointProbed(
        node=NodeId(node),
        endpoint=endpoint(node),
        resolution=Resolution.RESOLVED,
        addresses=(f"10.0.0.{node}",),
        connection=Connection.ACCEPTED,
        answer=Answer.THIS_CLUSTER,
        answered_by=NodeId(node),
        detail="",
    )


def rows(kind: type[Event] | None, lie: Lie | None) -> Iterable[DecodedRow]:
    """Yields a row a second of each kind; at LIE_AT the row of `kind` holds the lie instead of the truth."""
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    for second in range(LIE_AT + TRUTH_S):
        if second == STOPPED_AT + 5:
            script.leader(1, epoch=2)
        script.noops(2)
        log = script.read(after_ms=200)
        *records, end = each_event(log.events)
        epoch = Epoch(script.epoch)
        assert isinstance(end, LogAdvanced)
        of_log: list[Event] = [*records, replace(end, first_epoch=epoch, last_epoch=epoch)]
        views = (view(script, node) for node in (1, 2, 3))
        others: list[Event] = [polled(script, second), *views, probe(3)]
        for events in (of_log, others):
            at = [number for number, event in enumerate(events) if kind is not None and isinstance(event, kind)]
            if lie is not None and second == LIE_AT and at:
                events[at[-1]] = lie(events[at[-1]])
        yield DecodedRow(log.sequence, log.observed_at_ms, of_log)
        for event in others:
            yield script.row(event, after_ms=200 if isinstance(event, QuorumPolled) else 150)


def voters(change: Callable[[Any], Any], number: int) -> Lie:
    """Returns a poll whose row of one voter is changed."""

    def lie(event: QuorumPolled) -> QuorumPolled:
        changed = (change(row) if at == number else row for at, row in enumerate(event.voters))
        return replace(event, voters=tuple(changed))

    return lie


def changed(**fields: Any) -> Lie:
    return lambda event: replace(event, **fields)


NODES = (NodeEndpoints(id=NodeId(1), endpoints=(endpoint(9),)),)
LIES: dict[str, tuple[type[Event], Lie]] = {
    "high watermark": (QuorumPolled, changed(high_watermark=Offset(MOST))),
    "plausible high watermark": (QuorumPolled, changed(high_watermark=Offset(10**12))),
    "high watermark 0": (QuorumPolled, changed(high_watermark=Offset(0))),
    "no high watermark": (QuorumPolled, changed(high_watermark=None)),
    "epoch of the leader": (QuorumPolled, changed(leader_epoch=Epoch(EPOCH_MOST))),
    "epoch and high watermark": (
        QuorumPolled,
        changed(leader_epoch=Epoch(EPOCH_MOST), high_watermark=Offset(MOST)),
    ),
    "epoch of another leader": (QuorumPolled, changed(leader_id=NodeId(2), leader_epoch=Epoch(EPOCH_MOST))),
    "epoch, high watermark and leader": (
        QuorumPolled,
        changed(leader_id=NodeId(2), leader_epoch=Epoch(EPOCH_MOST), high_watermark=Offset(MOST)),
    ),
    "epoch 0": (QuorumPolled, changed(leader_epoch=Epoch(0))),
    "another leader": (QuorumPolled, changed(leader_id=NodeId(2))),
    "unknown leader": (QuorumPolled, changed(leader_id=NodeId(99))),
    "no voters": (QuorumPolled, changed(voters=())),
    "endpoints of nodes": (QuorumPolled, changed(nodes=NODES)),
    "log end of the leader": (QuorumPolled, voters(lambda row: replace(row, log_end_offset=Offset(10**12)), 0)),
    "log end of a follower": (QuorumPolled, voters(lambda row: replace(row, log_end_offset=Offset(10**12)), 1)),
    "log end of a stopped voter": (QuorumPolled, voters(lambda row: replace(row, log_end_offset=Offset(10**12)), 2)),
    "no log end of a stopped voter": (QuorumPolled, voters(lambda row: replace(row, log_end_offset=None), 2)),
    "fetch in the future": (QuorumPolled, voters(lambda row: replace(row, last_fetch_ms=Millis(MOST)), 2)),
    "caught up in the future": (QuorumPolled, voters(lambda row: replace(row, last_caught_up_ms=Millis(MOST)), 2)),
    "clock of the leader": (QuorumPolled, voters(lambda row: replace(row, last_fetch_ms=Millis(MOST)), 0)),
    "high watermark of the log": (LogAdvanced, changed(high_watermark=Offset(10**12))),
    "time of the log": (LogAdvanced, changed(newest_timestamp_ms=Millis(MOST))),
    "epoch of the log's leader": (LogAdvanced, changed(leader_epoch=Epoch(EPOCH_MOST))),
    "epoch of a NoOp": (LogAdvanced, changed(first_epoch=Epoch(EPOCH_MOST), last_epoch=Epoch(EPOCH_MOST))),
    "view of the leader": (LeaderViewPolled, changed(leader_id=NodeId(3), leader_epoch=Epoch(EPOCH_MOST))),
    "view of another cluster": (LeaderViewPolled, changed(this_cluster=False, leader_id=None, leader_epoch=None)),
    "probe": (EndpointProbed, changed(resolution=Resolution.NAME_NOT_FOUND, addresses=())),
    "addresses": (EndpointProbed, changed(addresses=("6.6.6.6",))),
}
REPORTED = {
    "high watermark": Invariant.HIGH_WATERMARK_BACK,
    "plausible high watermark": Invariant.HIGH_WATERMARK_BACK,
    "high watermark 0": Invariant.HIGH_WATERMARK_BACK,
    "epoch of the leader": Invariant.EPOCH_BACK,
    "epoch and high watermark": Invariant.EPOCH_BACK,
    "epoch of another leader": Invariant.EPOCH_BACK,
    "epoch, high watermark and leader": Invariant.EPOCH_BACK,
    "epoch 0": Invariant.EPOCH_BACK,
    "another leader": Invariant.TWO_LEADERS,
    "unknown leader": Invariant.TWO_LEADERS,
    "high watermark of the log": Invariant.HIGH_WATERMARK_BACK,
    "epoch of a NoOp": Invariant.EPOCH_BACK,
}


def comparable(quorum: Quorum) -> Quorum:
    """Returns the quorum without reports, and without what one poll less may change.

    That is since when a view or an outage is unbroken (a lie did break it), and at which polls samples were taken.
    """
    views = {name: replace(view, since_ms=view.observed_at_ms) for name, view in quorum.leader_views.items()}
    listed = {row.key for row in quorum.poll.voters} if quorum.poll else set()
    histories = {
        key: replace(history, samples=history.samples[-1:], outages=())
        for key, history in quorum.histories.items()
        if key in listed
    }
    return replace(quorum, invariant_violations=(), leader_views=views, histories=histories)


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("lie", LIES)
def test_after_minutes_of_truth_the_quorum_is_the_one_without_the_lie(lie: str, restarted: bool) -> None:
    expected = apply(machine(), rows(None, None))
    replayed = machine()
    for row in rows(*LIES[lie]):
        apply(replayed, [row])
        if restarted:
            replayed = again(replayed.to_bytes())

    assert comparable(replayed.quorum()) == comparable(expected)
    reported = {violation.invariant for violation in replayed.quorum().invariant_violations}
    assert reported >= ({REPORTED[lie]} if lie in REPORTED else set())
    # The image's own knowledge is back as well: what comes after it is checked as without the lie.
    assert replayed.log.epoch == 2


@pytest.mark.parametrize("lie", REPORTED)
def test_a_lie_is_reported_once_and_no_longer_than_an_hour(lie: str) -> None:
    replayed = machine()
    apply(replayed, rows(*LIES[lie]))
    violations = replayed.quorum().invariant_violations
    assert 1 <= len(violations) <= 3
    assert max(one.observed_at_ms for one in violations) - min(one.observed_at_ms for one in violations) < 60_000


@pytest.mark.parametrize(
    ("first", "last", "drop", "detail"),
    [
        (4, 4, None, "offset 2 of the log has epoch 4, after records of epoch 5"),
        (5, 3, (3, 3, 5), "offset 3 of the log has epoch 3, after records of epoch 5"),
    ],
    ids=["from one observation to the next", "within an observation"],
)
def test_noops_whose_epoch_falls_are_a_violation(
    first: int, last: int, drop: tuple[int, int, int] | None, detail: str
) -> None:
    replayed, script = machine(), LogScript(epoch=5)
    script.leader(1)
    script.voters("1-a")
    apply(replayed, [script.read()])
    script.noops(2)
    end = replace(
        script.advanced(script.offset),
        first_epoch=Epoch(first),
        last_epoch=Epoch(last),
        epoch_drop=None if drop is None else EpochDrop(offset=Offset(drop[0]), epoch=Epoch(drop[1]), before=Epoch(5)),
    )
    again_read = [script.row(end) for _ in range(3)]
    (violation,) = apply(replayed, again_read).invariant_violations

    assert (violation.invariant, violation.detail) == (Invariant.EPOCH_BACK, detail)
    assert replayed.log.epoch == last


def test_epochs_of_batches_that_are_read_again_are_not_compared() -> None:
    replayed, script = machine(), LogScript(epoch=5)
    script.leader(1)
    apply(replayed, [script.read()])
    end = replace(script.advanced(script.offset), first_epoch=Epoch(4), last_epoch=Epoch(4))

    assert apply(replayed, [script.row(end)]).invariant_violations == ()
    assert replayed.log.epoch == 5


@pytest.mark.parametrize(
    ("last_epoch", "drop", "violations"),
    [
        (5, None, []),
        (5, (1, 2, 3), []),
        (5, (4, 4, 5), ["offset 4 of the log has epoch 4, after records of epoch 5"]),
        (4, None, ["offset 5 of the log has epoch 4, after records of epoch 5"]),
    ],
    ids=["in the same epoch", "after a drop that was read", "after a new drop", "in a lower epoch"],
)
def test_a_log_that_is_read_again_from_its_start_has_new_records_of_its_last_epoch(
    last_epoch: int, drop: tuple[int, int, int] | None, violations: list[str]
) -> None:
    """As each hour, when a relay writes a new baseline: the first batches are of the first leader."""
    replayed, script = machine(), LogScript(epoch=5)
    script.leader(1)
    script.noops(3)
    apply(replayed, [script.read()])
    script.noops(2)
    end = replace(
        script.advanced(script.offset),
        base_offset=Offset(0),
        first_epoch=Epoch(1),
        last_epoch=Epoch(last_epoch),
        epoch_drop=None
        if drop is None
        else EpochDrop(offset=Offset(drop[0]), epoch=Epoch(drop[1]), before=Epoch(drop[2])),
    )

    found = apply(replayed, [script.row(end)]).invariant_violations

    assert [each.detail for each in found] == violations


def test_a_replaced_leader_that_answers_for_long_is_no_lie() -> None:
    """Without a majority it commits nothing: its high watermark stands still."""
    replayed: Machine = machine()
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    apply(replayed, [script.read(), script.row(poll(replica("1-a"), replica("2-b"), leader=1, epoch=1, hw=90))])
    apply(replayed, [script.row(poll(replica("1-a"), replica("2-b"), leader=2, epoch=2, hw=95))])
    for _ in range(90):
        apply(replayed, [script.row(poll(replica("1-a"), replica("2-b"), leader=1, epoch=1, hw=92))])

    assert replayed.quorum().leader_id == 1
    assert replayed.quorum().invariant_violations == ()
