"""What is remembered beside the state: elections, starts, forced reconfigurations, and how long a commit stands."""

import json
import zlib
from dataclasses import replace

from connectors.log_event import ControllerRegistered, VotersSet
from rules.model.history import RecentHistory
from rules.model.identifiers import NodeId
from streaming.replay import state_codec
from streaming.replay.machine import Machine
from streaming.replay.recent_history import REMEMBERED, REMEMBERED_MS
from tests.unit.streaming.replay.ledger import Ledger, again, apply, endpoint, key, machine, poll, replica, voter


def test_an_election_is_remembered_with_the_log_s_own_time_and_once() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    first = ledger.read()
    won_at = ledger.now_ms
    ledger.leader(2, epoch=4)
    rows = [first, ledger.read()]
    quorum = apply(replay, [*rows, *rows])

    assert [(one.leader_id, one.leader_epoch, one.offset) for one in quorum.history.elections] == [(1, 1, 0), (2, 4, 1)]
    assert quorum.history.elections[1].timestamp_ms == won_at


def test_a_start_is_a_new_incarnation_and_not_a_second_record_of_the_same() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.controller(2)
    again_at = ledger.at()
    ledger.write(ControllerRegistered(at=again_at, id=NodeId(2), incarnation_id="i2", endpoints=(endpoint(2, port=1),)))
    ledger.controller(2)
    quorum = apply(replay, [ledger.read()])

    assert [(one.id, one.offset) for one in quorum.history.starts] == [(2, 1), (2, 3)]


def test_only_a_jump_of_more_than_one_voter_is_a_forced_reconfiguration() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    for voters in (("1-a", "2-b", "3-c"), ("1-a", "2-b"), ("1-a", "2-b", "3-c")):
        ledger.voters(*voters)
    assert apply(replay, [ledger.read()]).history.reconfigurations == ()

    ledger.voters("2-b")
    (jump,) = apply(replay, [ledger.read()]).history.reconfigurations
    assert (jump.before, jump.after, jump.offset) == ((key("1-a"), key("2-b"), key("3-c")), (key("2-b"),), 4)


def test_every_change_of_the_voter_set_is_remembered_as_what_it_changed_however_long_ago() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    for voters in (("1-a", "2-b"), ("1-a", "2-b", "3-c"), ("1-a", "2-b", "3-c"), ("2-b", "3-d")):
        ledger.voters(*voters)
        apply(replay, [ledger.read(after_ms=100_000_000)])
    ledger.write(VotersSet(at=ledger.at(), voters=(voter("2-b", port=9193), voter("3-d"))))

    changes = apply(replay, [ledger.read()]).history.voter_changes

    assert [(one.added, one.removed, one.moved, one.offset) for one in changes] == [
        ((key("3-c"),), (), (), 2),
        ((key("3-d"),), (key("1-a"), key("3-c")), (), 4),
        ((), (), (2,), 5),
    ]


def test_the_past_is_bounded_in_time_and_in_number() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    apply(replay, [ledger.read(after_ms=REMEMBERED_MS)])
    for epoch in range(2, 2 + REMEMBERED):
        ledger.leader(1, epoch)
    assert len(apply(replay, [ledger.read()]).history.elections) == REMEMBERED

    ledger.now_ms += REMEMBERED_MS + 1
    ledger.leader(1, 900)
    assert [one.leader_epoch for one in apply(replay, [ledger.read()]).history.elections] == [900]


def test_since_when_the_high_watermark_stands() -> None:
    ledger, replay = Ledger(), machine()
    row = ledger.row(poll(replica("1-a", end=90), hw=80))
    assert apply(replay, [row]).high_watermark_since_ms == row.observed_at_ms

    quorum = apply(replay, [ledger.row(poll(replica("1-a", end=95), hw=80)) for _ in range(3)])
    assert quorum.high_watermark_since_ms == row.observed_at_ms

    moved = ledger.row(poll(replica("1-a", end=95), hw=81))
    assert apply(replay, [moved]).high_watermark_since_ms == moved.observed_at_ms

    elected = ledger.row(poll(replica("1-a", end=95), epoch=2, hw=None))
    quorum = apply(replay, [elected, ledger.row(poll(replica("1-a", end=95), epoch=2, hw=None))])
    assert (quorum.high_watermark, quorum.high_watermark_since_ms) == (None, elected.observed_at_ms)


def test_an_open_transaction_is_shown_until_it_ends() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.begin()
    ledger.broker(101)
    opened = apply(replay, [ledger.read()]).open_transaction
    assert opened is not None
    assert (opened.name, opened.since_offset, opened.records) == ("t", 1, 1)
    assert opened.since_timestamp_ms < ledger.now_ms

    ledger.end()
    assert apply(replay, [ledger.read()]).open_transaction is None


def test_an_open_transaction_of_history_that_is_still_replayed_is_not_shown() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.begin()
    assert apply(replay, [ledger.read(behind=5)]).open_transaction is None


def hurt() -> Machine:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.controller(2)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.voters("1-a")
    ledger.begin()
    apply(replay, [ledger.read(), ledger.row(poll(replica("1-a")))])
    return replay


def test_the_past_outlives_a_restart() -> None:
    replay = hurt()
    quorum = replay.quorum()
    assert all(
        (quorum.history.elections, quorum.history.starts, quorum.history.reconfigurations, quorum.open_transaction)
    )
    assert again(replay.to_bytes()).quorum() == quorum


def test_a_blob_from_before_the_past_was_remembered_still_loads() -> None:
    replay = hurt()
    blob = replay.to_bytes()
    length = int.from_bytes(blob[4:8], "big")
    document = json.loads(zlib.decompress(blob[8 : 8 + length]))
    del document["log"]["image"]["history"]
    del document["leadership"]["high_watermark_since_ms"]
    older = zlib.compress(json.dumps(document).encode())

    quorum = again(blob[:4] + len(older).to_bytes(4, "big") + older + blob[8 + length :]).quorum()

    assert blob[3] == state_codec.VERSION
    assert quorum == replace(replay.quorum(), history=RecentHistory(), high_watermark_since_ms=None)
