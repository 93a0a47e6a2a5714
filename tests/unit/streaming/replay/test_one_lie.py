"""One lie of a peer, then minutes of truth: the quorum is the one without the lie, and the lie is reported."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from connectors.observations.log_event import EpochDrop, LogAdvanced
from connectors.observations.observation import Event
from connectors.observations.partition_run import each_event
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Invariant, LeaderView, Probe, Resolution
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.scripts.log_script import (
    LogScript,
    again,
    apply,
    endpoint,
    machine,
    poll,
    probed,
    replica,
    view,
)

LIE_AT = 30
TRUTH_S = 75
"""More than everything that expires by itself: polls are rejected for 30 s, samples are kept for 60 s."""
MOST = 2**62
EPOCH_MOST = 2**31 - 1
STOPPED_AT = 20
"""When voter 3 stopped fetching, in epoch 1; the epoch is 2 since."""

Lie = Callable[[Any], Event]


def polled(script: LogScript, second: int) -> Poll:
    """Returns the truth: voter 3 stops at its offset, and the leader's clock goes on."""
    clock = 50_000 + 1_000 * second
    rows = []
    for name in ("1-a", "2-b", "3-c"):
        stopped = name == "3-c" and second >= STOPPED_AT
        row = replica(name, end=43 if stopped else script.offset)
        at = Millis(50_000 + 1_000 * STOPPED_AT if stopped else clock)
        rows.append(replace(row, last_fetch_ms=at, last_caught_up_ms=at))
    return poll(*rows, epoch=script.epoch, hw=script.offset)


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
        views = (view(node, epoch=script.epoch) for node in (1, 2, 3))
        others: list[Event] = [polled(script, second), *views, probed(3, "10.0.0.3")]
        for events in (of_log, others):
            at = [number for number, event in enumerate(events) if kind is not None and isinstance(event, kind)]
            if lie is not None and second == LIE_AT and at:
                events[at[-1]] = lie(events[at[-1]])
        yield DecodedRow(log.sequence, log.observed_at_ms, of_log)
        for event in others:
            yield script.row(event, after_ms=200 if isinstance(event, Poll) else 150)


def voter(number: int, **fields: Any) -> Lie:
    """Returns a poll whose row of one voter is changed."""

    def lie(event: Poll) -> Poll:
        changed = (replace(row, **fields) if at == number else row for at, row in enumerate(event.voters))
        return replace(event, voters=tuple(changed))

    return lie


def changed(**fields: Any) -> Lie:
    return lambda event: replace(event, **fields)


NODES = {NodeId(1): (endpoint(9),)}
HIGH_WATERMARK_BACK, EPOCH_BACK = Invariant.HIGH_WATERMARK_BACK, Invariant.EPOCH_BACK
FALSE_END = Offset(10**12)
LIES: dict[str, tuple[type[Event], Lie, Invariant | None]] = {
    "high watermark": (Poll, changed(high_watermark=Offset(MOST)), HIGH_WATERMARK_BACK),
    "plausible high watermark": (Poll, changed(high_watermark=FALSE_END), HIGH_WATERMARK_BACK),
    "high watermark 0": (Poll, changed(high_watermark=Offset(0)), HIGH_WATERMARK_BACK),
    "no high watermark": (Poll, changed(high_watermark=None), None),
    "epoch of the leader": (Poll, changed(leader_epoch=Epoch(EPOCH_MOST)), EPOCH_BACK),
    "epoch and high watermark": (
        Poll,
        changed(leader_epoch=Epoch(EPOCH_MOST), high_watermark=Offset(MOST)),
        EPOCH_BACK,
    ),
    "epoch of another leader": (
        Poll,
        changed(leader_id=NodeId(2), leader_epoch=Epoch(EPOCH_MOST)),
        EPOCH_BACK,
    ),
    "epoch, high watermark and leader": (
        Poll,
        changed(leader_id=NodeId(2), leader_epoch=Epoch(EPOCH_MOST), high_watermark=Offset(MOST)),
        EPOCH_BACK,
    ),
    "epoch 0": (Poll, changed(leader_epoch=Epoch(0)), EPOCH_BACK),
    "another leader": (Poll, changed(leader_id=NodeId(2)), Invariant.TWO_LEADERS),
    "unknown leader": (Poll, changed(leader_id=NodeId(99)), Invariant.TWO_LEADERS),
    "no voters": (Poll, changed(voters=()), None),
    "endpoints of nodes": (Poll, changed(nodes=NODES), None),
    "log end of the leader": (Poll, voter(0, log_end_offset=FALSE_END), None),
    "log end of a follower": (Poll, voter(1, log_end_offset=FALSE_END), None),
    "log end of a stopped voter": (Poll, voter(2, log_end_offset=FALSE_END), None),
    "no log end of a stopped voter": (Poll, voter(2, log_end_offset=None), None),
    "fetch in the future": (Poll, voter(2, last_fetch_ms=Millis(MOST)), None),
    "caught up in the future": (Poll, voter(2, last_caught_up_ms=Millis(MOST)), None),
    "clock of the leader": (Poll, voter(0, last_fetch_ms=Millis(MOST)), None),
    "high watermark of the log": (LogAdvanced, changed(high_watermark=FALSE_END), HIGH_WATERMARK_BACK),
    "time of the log": (LogAdvanced, changed(newest_timestamp_ms=Millis(MOST)), None),
    "epoch of the log's leader": (LogAdvanced, changed(leader_epoch=Epoch(EPOCH_MOST)), None),
    "epoch of a NoOp": (LogAdvanced, changed(first_epoch=Epoch(EPOCH_MOST), last_epoch=Epoch(EPOCH_MOST)), EPOCH_BACK),
    "view of the leader": (LeaderView, changed(leader_id=NodeId(3), leader_epoch=Epoch(EPOCH_MOST)), None),
    "view of another cluster": (
        LeaderView,
        changed(this_cluster=False, leader_id=None, leader_epoch=None),
        None,
    ),
    "probe": (Probe, changed(resolution=Resolution.NAME_NOT_FOUND, addresses=()), None),
    "addresses": (Probe, changed(addresses=("6.6.6.6",)), None),
}


def comparable(quorum: Quorum) -> Quorum:
    """Returns the quorum without reports, and without what one poll less may change.

    That is since when a view or an outage is unbroken (a lie did break it), at which polls samples were taken, and the
    averages of all polls.
    """
    views = {name: replace(view, since_ms=view.observed_at_ms) for name, view in quorum.leader_views.items()}
    listed = {row.key for row in quorum.poll.voters} if quorum.poll else set()
    histories = {
        key: replace(history, samples=history.samples[-1:], outages=())
        for key, history in quorum.histories.items()
        if key in listed
    }
    return replace(quorum, invariant_violations=(), leader_views=views, histories=histories, commit_wait=None)


@cache
def truth() -> Quorum:
    return apply(machine(), rows(None, None))


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("lie", LIES)
def test_after_minutes_of_truth_the_quorum_is_the_one_without_the_lie(lie: str, restarted: bool) -> None:
    expected = truth()
    replayed = machine()
    kind, false, reported = LIES[lie]
    for row in rows(kind, false):
        apply(replayed, [row])
        if restarted:
            replayed = again(replayed.to_bytes())

    assert comparable(replayed.quorum()) == comparable(expected)
    found = {violation.invariant for violation in replayed.quorum().invariant_violations}
    assert reported is None or reported in found
    # The image's own knowledge is back as well: what comes after it is checked as without the lie.
    assert replayed.log.epoch == 2


@pytest.mark.parametrize("lie", [name for name, (_, _, reported) in LIES.items() if reported])
def test_a_lie_is_reported_once_and_no_longer_than_an_hour(lie: str) -> None:
    replayed = machine()
    apply(replayed, rows(*LIES[lie][:2]))
    violations = replayed.quorum().invariant_violations
    assert 1 <= len(violations) <= 3
    assert max(one.observed_at_ms for one in violations) - min(one.observed_at_ms for one in violations) < 60_000


@pytest.mark.parametrize(
    ("base", "noops", "first", "last", "drop", "violations"),
    [
        (None, 2, 4, 4, None, ["offset 4 of the log has epoch 4, after records of epoch 5"]),
        (None, 2, 5, 3, (5, 3, 5), ["offset 5 of the log has epoch 3, after records of epoch 5"]),
        (None, 0, 4, 4, None, []),
        # As each hour, when a relay writes a new baseline: the first batches are of the first leader.
        (0, 2, 1, 5, None, []),
        (0, 2, 1, 5, (1, 2, 3), []),
        (0, 2, 1, 5, (4, 4, 5), ["offset 4 of the log has epoch 4, after records of epoch 5"]),
        (0, 2, 1, 4, None, ["offset 5 of the log has epoch 4, after records of epoch 5"]),
    ],
    ids=[
        "a lower epoch",
        "a drop within the observation",
        "batches that are read again",
        "from the start",
        "from the start, after a drop that was read",
        "from the start, after a new drop",
        "from the start, in a lower epoch",
    ],
)
def test_epochs_of_batches_that_only_hold_noops_are_compared_once(
    base: int | None, noops: int, first: int, last: int, drop: tuple[int, int, int] | None, violations: list[str]
) -> None:
    replayed, script = machine(), LogScript(epoch=5)
    script.leader(1)
    script.noops(3)
    apply(replayed, [script.read()])
    script.noops(noops)
    end = replace(
        script.advanced(script.offset),
        base_offset=None if base is None else Offset(base),
        first_epoch=Epoch(first),
        last_epoch=Epoch(last),
        epoch_drop=drop and EpochDrop(offset=Offset(drop[0]), epoch=Epoch(drop[1]), before=Epoch(drop[2])),
    )
    found = apply(replayed, [script.row(end) for _ in range(3)]).invariant_violations

    assert [each.detail for each in found] == violations
    assert {each.invariant for each in found} <= {Invariant.EPOCH_BACK}
    assert replayed.log.epoch == (last if noops else 5)


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
