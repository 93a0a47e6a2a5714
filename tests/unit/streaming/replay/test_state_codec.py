"""The blob: it holds the whole state, older versions are migrated, newer and damaged ones are refused."""

import json
import zlib
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.log_event import ElrCleared
from rules.model.identifiers import TopicId
from rules.model.monitoring import Access, Reason, Vantage
from streaming.replay import state_codec, table_codec
from streaming.replay.machine import Machine
from tests.description import describe
from tests.unit.streaming.replay.former_topics import former_topics
from tests.unit.streaming.replay.log_script import LogScript, again, apply, failed, machine, poll, replica
from tests.unit.streaming.replay.memory_pages import MemoryPages


def replayed() -> Machine:
    script, replay = LogScript(), machine()
    script.leader(1)
    script.voters("1-a", "2-b")
    script.broker(101, fenced=False)
    script.begin()
    script.broker(102)
    script.change("orders", 0, isr=(101,), recovering=True)
    rows = [script.read(), script.row(poll(replica("1-a"), replica("2-b"))), script.row(failed(Reason.DENIED))]
    apply(replay, rows)
    return replay


def test_a_restored_machine_equals_the_stored_one() -> None:
    replay = replayed()
    back = again(replay.to_bytes())

    assert back.quorum() == replay.quorum()
    assert back.to_bytes() == replay.to_bytes()
    assert describe(back.quorum()) == describe(replay.quorum())
    assert (back.sequence, back.undecodable) == (replay.sequence, replay.undecodable)


def test_the_current_configuration_replaces_that_of_the_blob() -> None:
    back = Machine.from_bytes(
        replayed().to_bytes(), cluster="renamed", cluster_id=None, bootstrap=("x:1",), vantage=Vantage.OUTSIDE
    )
    quorum = back.quorum()

    assert (quorum.cluster, quorum.bootstrap, quorum.vantage) == ("renamed", ("x:1",), Vantage.OUTSIDE)
    assert quorum.cluster_id == "cluster-id"


def test_access_is_that_of_the_current_configuration() -> None:
    access = Access(secured=True, principal="User:kraftwatch")
    back = Machine.from_bytes(
        replayed().to_bytes(), cluster="test", cluster_id=None, bootstrap=(), vantage=Vantage.INSIDE, access=access
    )
    assert back.quorum().access == access


def test_partitions_are_stored_in_pages_and_restored_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_codec, "SMALL_PAGE", 0)
    pages = MemoryPages()
    stored = Machine("test", None, (), Vantage.INSIDE, pages=pages)
    script = LogScript()
    script.leader(1)
    script.partition("orders", 0, 101, 102)
    apply(stored, [script.read()])
    blob = stored.to_bytes()
    assert pages.contents

    back = Machine.from_bytes(blob, cluster="test", cluster_id=None, bootstrap=(), vantage=Vantage.INSIDE, pages=pages)
    assert back.log.partitions.topics == stored.log.partitions.topics
    script.change("orders", 0, isr=(102,))
    before = len(pages.contents)
    monkeypatch.setattr(table_codec, "MOST_CHANGES", 0)
    apply(back, [script.read()])
    back.to_bytes()
    assert len(pages.contents) > before, "a changed page is stored there again"


def refusal(blob: bytes, cluster_id: str | None = None) -> str:
    with pytest.raises(UsageError) as refused:
        Machine.from_bytes(blob, cluster="test", cluster_id=cluster_id, bootstrap=(), vantage=Vantage.INSIDE)
    return str(refused.value)


def test_state_of_another_cluster_is_refused() -> None:
    assert refusal(replayed().to_bytes(), "elsewhere") == (
        "the checkpoint's state of cluster test is of cluster id cluster-id, not elsewhere: "
        "use another checkpoint folder"
    )


def test_a_newer_version_is_refused() -> None:
    blob = bytearray(replayed().to_bytes())
    blob[3] = 9
    assert refusal(bytes(blob)) == (
        f"the checkpoint's state of cluster test has version 9, this kraftwatch knows up to {state_codec.VERSION}: "
        "run the newer kraftwatch that wrote it, or start with a new checkpoint folder"
    )


def test_every_truncated_or_foreign_blob_is_refused_in_one_sentence() -> None:
    blob = replayed().to_bytes()
    for torn in (b"", b"k", b"PK\x03\x04 and so on", *(blob[:end] for end in range(3, len(blob))), blob + b"\0"):
        assert refusal(torn).startswith("the checkpoint's state of cluster test is damaged (")


@pytest.mark.parametrize("version", [state_codec.VERSION - 1, state_codec.VERSION])
@pytest.mark.parametrize("inside", [b"no JSON", b'{"sequence": 7}', b'"\xff"'])
def test_a_complete_blob_with_other_content_is_refused(version: int, inside: bytes) -> None:
    hot = zlib.compress(inside)
    blob = state_codec.MAGIC + bytes([version]) + len(hot).to_bytes(4, "big") + hot + bytes(8)
    assert refusal(blob).startswith("the checkpoint's state of cluster test is damaged (")


def test_an_older_version_is_migrated_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invented future: version 4 has another key for `undecodable`, version 5 stores it as a string."""
    replay = replayed()
    replay.undecodable = 7
    new = replay.to_bytes()
    length = int.from_bytes(new[4:8], "big")
    document: dict[str, Any] = json.loads(zlib.decompress(new[8 : 8 + length]))
    document["broken"] = document.pop("undecodable")
    old_hot = zlib.compress(json.dumps(document).encode())
    old = b"kwm\x04" + len(old_hot).to_bytes(4, "big") + old_hot + new[8 + length :]

    def to_fifth(old: dict[str, Any]) -> dict[str, Any]:
        broken = old.pop("broken")
        return {**old, "undecodable": str(broken)}

    def to_sixth(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "undecodable": int(old["undecodable"])}

    monkeypatch.setattr(state_codec, "VERSION", 6)
    monkeypatch.setattr(state_codec, "MIGRATIONS", {4: to_fifth, 5: to_sixth})

    assert again(old).undecodable == 7
    assert again(old).quorum() == replay.quorum()


def test_keys_of_version_2_are_renamed() -> None:
    image, renamed_image = {"gone": [1], "past": 2, "kraft_version": 3}, {"removed_voters": [1], "history": 2}
    log, renamed_log = {"image": image, "epoch": 4}, {"image": {**renamed_image, "kraft_version": 3}, "epoch": 4}
    old = {"log": log, "loading": log, "shown": image, "polls": 5, "looks": {"views": 6}, "sequence": 7}
    old |= {"leadership": {"known": 8, "heard_at_ms": 9, "doubts": 10}, "invariants": {"answered": 11}}

    assert state_codec.MIGRATIONS[2]({**old, "contracts": {"breaches": 12}}) == {
        "log": renamed_log,
        "loading": renamed_log,
        "visible_image": renamed_log["image"],
        "poll_history": 5,
        "probe_state": {"leader_views": 6},
        "sequence": 7,
        "leadership": {"leader_id": 8, "confirmed_at_ms": 9, "leaderless_reports": 10},
        "invariants": {"polled_epochs": 11},
        "contract_violations": {"violations": 12},
    }
    assert state_codec.MIGRATIONS[2]({"log": log, "loading": None})["loading"] is None


def test_topics_of_version_1_are_read_with_unknown_epochs() -> None:
    """Version 1 packed them without epochs and without the last known ELR."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, elr=(103,))
    apply(replay, [script.read()])
    new = replay.to_bytes()
    hot = new[4 : 8 + int.from_bytes(new[4:8], "big")]
    document = {
        "assignments": [[[101, 102], [101, 102], [103], 101]],
        "topics": [["id-of-orders", "orders", None, [0]]],
    }
    topics = zlib.compress(json.dumps(document).encode())
    old = b"kwm\x01" + hot + len(topics).to_bytes(4, "big") + topics + bytes(4)

    held = again(old).log.partitions.topics[TopicId("id-of-orders")].partitions[0]

    known = replay.log.partitions.topics[TopicId("id-of-orders")].partitions[0]
    assert (known.leader_epoch, known.partition_epoch) == (0, 0)
    assert held == known._replace(leader_epoch=None, partition_epoch=None)
    assert again(again(old).to_bytes()).log.partitions.topics == again(old).log.partitions.topics


@pytest.mark.parametrize("cleared", [False, True], ids=["another leader", "no ELR"])
def test_topics_of_version_3_are_kept_until_a_partition_changes(cleared: bool) -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, elr=(103,))
    script.partition("orders", 70_000, 101, 102, 103, 104, 105, 106)
    script.change("orders", 0, isr=(102,), recovering=True)
    script.change("unknown", 3, isr=(101,))
    apply(replay, [script.read()])
    new = replay.to_bytes()
    hot = new[4 : 8 + int.from_bytes(new[4:8], "big")]
    topics = former_topics(replay.log.partitions.topics)
    old = b"kwm\x03" + hot + len(topics).to_bytes(4, "big") + topics + bytes(4)

    held = again(old)
    assert held.quorum() == replay.quorum()
    assert topics in held.to_bytes()
    assert again(held.to_bytes()).log.partitions.topics == replay.log.partitions.topics
    if cleared:
        script.write(ElrCleared(at=script.at(), topic=None))
    else:
        script.change("orders", 0, isr=(101,), leader=101)
    event = script.read()
    assert apply(held, [event]) == apply(replay, [event])
    assert topics not in held.to_bytes()
    assert again(held.to_bytes()).log.partitions.topics == replay.log.partitions.topics


def test_an_idle_quorum_is_a_small_blob() -> None:
    """Nine replicas polled for ten minutes, forty brokers, 1,000 partitions: a micro-batch rewrites these bytes."""
    script, replay = LogScript(), machine()
    script.leader(1)
    for node in range(40):
        script.broker(100 + node, fenced=False)
    script.topic("orders")
    for number in range(1_000):
        script.partition("orders", number, 100 + number % 40, 100 + (number + 1) % 40, 100 + (number + 2) % 40)
    rows = [script.read()]
    rows += [script.row(poll(*(replica(f"{node}-dir{node}") for node in range(1, 10)))) for _ in range(600)]
    apply(replay, rows)

    assert len(replay.to_bytes()) < 12_000
