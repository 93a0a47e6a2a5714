"""The log follower against scripted controllers: its queries, the records and the failures that it writes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from connectors.errors import ObservationError
from connectors.gather import log_follower
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.log_follower import LogFollower
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import RedactedBatches, redacted_batches
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.schemas import FetchSnapshotRequest
from connectors.metadata.batches import MAGIC_AT
from rules.model.identifiers import Epoch, Offset, SnapshotId
from rules.model.monitoring import DamagedBatch, Reason
from tests.unit.connectors.gather.follower_answers import LOG, follow, follower_response, leader_response
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.gather.scripted_cluster import (
    C1,
    C2,
    C3,
    RecordedOutput,
    ScriptedClient,
    fails_with,
    run_until,
)
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, piece_answer, refused_piece
from tests.unit.connectors.metadata.metadata_bytes import batch as batch_of_records
from tests.unit.connectors.metadata.metadata_bytes import noop

refused = fails_with(Reason.REFUSED)


@pytest.fixture
def loop(simulated_time_loop: EventLoop) -> EventLoop:
    """The tests use no sockets, so time advances only when every coroutine waits."""
    return simulated_time_loop


LENGTH_AT = 8


def test_records_that_were_not_written_when_the_task_failed_are_fetched_again(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4)})
    output = RecordedOutput()
    nodes = NodeDirectory(configured=(C1,), cluster_id="x")
    follower = LogFollower(controllers, nodes, output)  # type: ignore[arg-type]

    def fails(*_: object, **__: object) -> RedactedBatches:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(log_follower, "redacted_batches", fails)
        with pytest.raises(RuntimeError):
            loop.run(follower.run)
    assert output.log == b""

    async def run_again() -> None:
        loop.spawn(follower.run())
        await loop.sleep(8)

    loop.run(run_again)
    assert output.log == LOG


def test_a_paused_log_is_not_read_until_the_pause_ends(loop: EventLoop) -> None:
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4)})
    output = RecordedOutput()
    follower = LogFollower(controllers, NodeDirectory(configured=(C1,), cluster_id="x"), output)  # type: ignore[arg-type]
    follower.pause(0.5)

    async def main() -> float:
        began = loop.now()
        loop.spawn(follower.run())
        while not output.log:
            await loop.sleep(0.01)
        return loop.now() - began

    assert loop.run(main) >= 0.5
    assert output.log == LOG


def followed(
    loop: EventLoop,
    appended: Callable[[float], list[bytes]],
    *,
    for_s: float,
    at_once: int = 1_000,
    one_of_many: bool = False,
) -> tuple[ScriptedClient, RecordedOutput]:
    """Follows for some seconds the log of a leader that has appended these batches of one record by each second.

    `at_once`: the most batches in an answer.
    """
    began = loop.now()

    def leader(request: Any) -> Any:
        partition, log = request.topics[0].partitions[0], appended(loop.now() - began)
        if partition.current_leader_epoch != 3:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=3)
        new = log[partition.fetch_offset : partition.fetch_offset + at_once]
        return fetch_answer(leader=2, epoch=3, high_watermark=len(log), records=b"".join(new))

    client, output = ScriptedClient(loop, {C1: leader}, answer_s=0.02), RecordedOutput()
    nodes = NodeDirectory(configured=(C1,), cluster_id="x")
    follower = LogFollower(client, nodes, output, one_of_many=one_of_many)  # type: ignore[arg-type]
    run_until(loop, follower.run(), lambda: False, within_s=for_s)
    return client, output


def changes(every_s: float, *, first_s: float = 0.0) -> Callable[[float], list[bytes]]:
    return lambda now: [batch(at, 1, epoch=3) for at in range(max(0, int((now - first_s) / every_s + 1)))]


@pytest.mark.parametrize("one_of_many", [False, True])
@pytest.mark.parametrize("every_s", [0.1, 0.005, 0.37])
def test_changes_that_keep_coming_are_fetched_once_a_second(loop: EventLoop, every_s: float, one_of_many: bool) -> None:
    client, output = followed(loop, changes(every_s), for_s=10.5, one_of_many=one_of_many)
    assert 10 <= len(output.rows) <= 12
    assert len(output.log) >= len(output.rows[-1]) * 9, "no change is left out"
    assert len(client.sent) <= len(output.rows) + 8


@pytest.mark.parametrize("one_of_many", [False, True])
def test_the_first_change_after_a_second_without_records_is_read_at_once(loop: EventLoop, one_of_many: bool) -> None:
    _, output = followed(loop, changes(60, first_s=5.25), for_s=5.4, one_of_many=one_of_many)
    assert len(output.rows) == 1


@pytest.mark.parametrize("one_of_many", [False, True])
def test_a_follower_that_is_behind_does_not_pause(loop: EventLoop, one_of_many: bool) -> None:
    log = [batch(at, 1, epoch=3) for at in range(20)]
    _, output = followed(loop, lambda _: log, for_s=0.9, at_once=1, one_of_many=one_of_many)
    assert len(output.rows) == 20


def noops(now: float) -> list[bytes]:
    return [batch_of_records([noop()], base_offset=at, epoch=3) for at in range(int(now / 0.2) + 1)]


def test_noops_alone_make_no_pause(loop: EventLoop) -> None:
    _, output = followed(loop, noops, for_s=5.1)
    assert len(output.rows) >= 24


def test_in_a_job_of_many_clusters_noops_are_fetched_once_a_second(loop: EventLoop) -> None:
    client, output = followed(loop, noops, for_s=10.5, one_of_many=True)
    assert 10 <= len(output.rows) <= 12
    assert len(client.sent) <= len(output.rows) + 8
    assert output.log == b"".join(noops(10.5))[: len(output.log)], "none is left out"


def test_leader_is_found_without_addresses_in_the_responses(loop: EventLoop) -> None:
    scripts = {C1: follower_response(2, None), C2: leader_response(LOG, end=4), C3: follower_response(2, None)}
    output = follow(loop, ScriptedClient(loop, scripts), lambda output: output.log == LOG, configured=(C1, C2, C3))
    assert output.log == LOG
    assert output.failures == [], "a leader that rejects the epoch is queried again with its own"


def test_the_leader_that_the_former_one_names_is_fetched_from_at_once(loop: EventLoop) -> None:
    newer = batch(4, 1, epoch=4)
    scripts = {C1: leader_response(LOG, end=4), C2: follower_response(-1, None), C3: follower_response(-1, None)}
    controllers = ScriptedClient(loop, scripts)

    def loses_the_leadership(output: RecordedOutput) -> bool:
        if output.log == LOG and scripts[C3] is not moved:
            scripts[C1], scripts[C3] = follower_response(3, C3, epoch=4), moved
            controllers.sent.clear()
        return output.log == LOG + newer

    def moved(request: Any) -> Any:
        assert request.topics[0].partitions[0].current_leader_epoch == 4
        return fetch_answer(leader=3, epoch=4, high_watermark=5, records=newer)

    assert follow(loop, controllers, loses_the_leadership, configured=(C1, C2, C3)).log == LOG + newer
    assert C2 not in controllers.queried, "no other node is asked for the leader"


def test_reported_leader_that_does_not_answer_is_dropped(loop: EventLoop) -> None:
    scripts = {C1: follower_response(2, C2), C2: refused, C3: follower_response(-1, None)}
    controllers = ScriptedClient(loop, scripts)
    output = follow(loop, controllers, lambda output: bool(output.reasons(C3)), configured=(C1, C3))
    assert output.reasons(C1) == {Reason.NO_LEADER}
    assert output.reasons(C3) == {Reason.NO_LEADER}
    assert output.reasons(C2) == {Reason.REFUSED}
    assert "names node 2" in next(event.detail for event in output.failures if event.endpoint == str(C1))
    assert {event.node for event in output.failures if event.endpoint == str(C2)} >= {2}, "the leader that is named"
    assert {event.node for event in output.failures if event.endpoint in (str(C1), str(C3))} == {None}
    assert len(controllers.queried) < 15, "the log follower does not follow the same hint in a loop"


def test_failed_leader_is_used_again_in_a_newer_epoch(loop: EventLoop) -> None:
    scripts = {C1: follower_response(2, C2), C2: refused}
    controllers = ScriptedClient(loop, scripts)

    def leader_recovers(output: RecordedOutput) -> bool:
        if output.reasons(C1):
            scripts[C1] = follower_response(2, C2, epoch=4)
            scripts[C2] = leader_response(LOG, end=4, epoch=4)
        return output.log == LOG

    assert follow(loop, controllers, leader_recovers, configured=(C1,)).log == LOG


def leader_with_snapshot(
    file: bytes, *, piece_bytes: int, failures: list[int], leader: int = 1, at: Address = C1, epoch: int = 3
) -> Callable[[Any], Any]:
    """A leader with a snapshot at offset 9 of epoch 2, sent in pieces; fails once at each position of `failures`."""

    def script(request: Any) -> Any:
        if isinstance(request, FetchSnapshotRequest):
            partition = request.topics[0].partitions[0]
            assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (9, 2)
            if partition.position in failures:
                failures.remove(partition.position)
                raise ObservationError(Reason.CLOSED, "closed during the snapshot")
            content = file[partition.position : partition.position + piece_bytes]
            return piece_answer(content, size=len(file), position=partition.position)
        partition = request.topics[0].partitions[0]
        answer = partial(fetch_answer, leader=leader, epoch=epoch)
        if partition.current_leader_epoch != epoch:
            return answer(error=ErrorCode.FENCED_LEADER_EPOCH, at=at)
        if partition.fetch_offset < 9:
            return answer(high_watermark=11, snapshot_id=PARTITION.SnapshotId(end_offset=9, epoch=2))
        assert (partition.fetch_offset, partition.last_fetched_epoch) in ((9, 2), (11, 3))
        records = batch(9, 2, epoch=3) if partition.fetch_offset == 9 else b""
        return answer(high_watermark=11, records=records)

    return script


@pytest.mark.parametrize("piece_bytes", [40, 100, 10_000])
def test_snapshot_is_resumed_at_the_position_of_the_failure(loop: EventLoop, piece_bytes: int) -> None:
    file = b"".join(batch(at, 5, epoch=2) for at in range(4))
    script = leader_with_snapshot(file, piece_bytes=piece_bytes, failures=[piece_bytes * 2])
    controllers = ScriptedClient(loop, {C1: script})
    output = follow(loop, controllers, lambda output: bool(output.log), configured=(C1,))

    pieces = [request for _, request in controllers.sent if isinstance(request, FetchSnapshotRequest)]
    sent = {(request.cluster_id, request.topics[0].partitions[0].current_leader_epoch) for request in pieces}
    assert sent == {("x", 3)}
    redacted = b"".join(piece.content for piece in redacted_batches(file).pieces)
    assert b"".join(batches for *_, batches in output.pieces) == redacted, "no byte is fetched twice"
    assert [number for _, number, _ in output.pieces] == list(range(len(output.pieces)))
    assert {snapshot for snapshot, *_ in output.pieces} == {SnapshotId(end_offset=9, epoch=2)}
    assert output.log == batch(9, 2, epoch=3)


@pytest.mark.parametrize("error", [None, -1, 6, 74, 75], ids=lambda error: f"error {error}")
def test_snapshot_of_another_leader_is_read_from_its_beginning(loop: EventLoop, error: int | None) -> None:
    """It has the same records, but not the same bytes. The first leader closes, or does not lead our epoch any more."""
    of_first = b"".join(batch(at, 5, epoch=2) for at in range(4))
    of_second = batch(0, 20, epoch=2) + batch(20, 1, epoch=2)
    first = leader_with_snapshot(of_first, piece_bytes=150, failures=[])
    scripts = {
        C1: first,
        C2: leader_with_snapshot(of_second, piece_bytes=10_000, failures=[], leader=2, at=C2, epoch=4),
    }

    def first_is_replaced(request: Any) -> Any:
        if isinstance(request, FetchSnapshotRequest) and request.topics[0].partitions[0].position:
            scripts[C1] = follower_response(2, C2, epoch=4)
            if error is not None:
                return refused_piece() if error == -1 else piece_answer(b"", error_code=error)
            raise ObservationError(Reason.CLOSED, "closed during the snapshot")
        return first(request)

    scripts[C1] = first_is_replaced
    output = follow(loop, ScriptedClient(loop, scripts), lambda output: bool(output.log), configured=(C1,))

    assert [event.reason for event in output.failures] == [Reason.CLOSED] * (error is None)
    assert [number for _, number, _ in output.pieces] == [0, 0]
    assert [output.pieces[1][2]] == [piece.content for piece in redacted_batches(of_second).pieces]


def test_an_idle_log_is_a_row_a_second(loop: EventLoop) -> None:
    """They show that a leader still answers."""
    began = loop.now()
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4, leader=1)})
    follow(loop, controllers, lambda output: output.empty_rows >= 4, configured=(C1,))
    assert 3.9 < loop.now() - began < 6


def test_lost_metadata_is_recorded_and_the_log_is_read_from_its_start(loop: EventLoop) -> None:
    watermark = iter(range(4, 1_000))

    def leader_with_older_log(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=1, epoch=3, at=C1)
        if partition.fetch_offset > 4:
            diverging = PARTITION.EpochEndOffset(epoch=3, end_offset=4)
            return fetch_answer(leader=1, high_watermark=next(watermark), diverging_epoch=diverging)
        return fetch_answer(leader=1, high_watermark=4, records=LOG if partition.fetch_offset == 0 else b"")

    controllers = ScriptedClient(loop, {C1: leader_with_older_log})
    start = FetchPosition(offset=50, epoch=3)
    output = follow(loop, controllers, lambda output: output.log == LOG, configured=(C1,), start=start)
    assert output.log == LOG
    assert [event.reason for event in output.failures] == [Reason.METADATA_LOST]
    assert "offset 49 of epoch 3 was committed" in output.failures[0].detail


@pytest.mark.parametrize("changed", [True, False])
def test_an_epoch_that_is_used_again_is_a_loss(loop: EventLoop, changed: bool) -> None:
    """The quorum was restored, and its log is longer than the former one before it answers again."""
    again = batch(0, 2, epoch=1) + batch(2, 2, epoch=3) if changed else LOG
    now, more = [LOG], batch(4, 3, epoch=3)

    def leader(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=1, epoch=3, at=C1)
        served = now[0]
        if len(served) == len(LOG) and served is LOG and partition.fetch_offset == 4:
            now[0] = again + more
            raise ObservationError(Reason.CLOSED, "all controllers are restored")
        second = len(batch(0, 2 if changed else 3, epoch=1))
        records = served[{0: 0, 3: second, 4: len(again)}.get(partition.fetch_offset, len(served)) :]
        return fetch_answer(leader=1, high_watermark=7 if served is not LOG else 4, records=records)

    controllers = ScriptedClient(loop, {C1: leader})
    expected = LOG + again + more if changed else LOG + more
    output = follow(loop, controllers, lambda output: len(output.log) >= len(expected), configured=(C1,))

    assert output.log == expected
    lost = [event.detail for event in output.failures if event.reason is Reason.METADATA_LOST]
    assert ["it uses an epoch again" in one for one in lost] == [True] * changed


@pytest.mark.parametrize(("at", "value"), [(MAGIC_AT, b"\1"), (LENGTH_AT, b"\0\0\0\5")], ids=["magic", "length"])
def test_a_damaged_batch_is_reported_and_read_again_from_another_leader(loop: EventLoop, at: int, value: bytes) -> None:
    """Reading goes on after it, where its header or the next sound batch shows its end."""
    damaged = bytearray(LOG)
    damaged[at : at + len(value)] = value
    served: list[int] = []

    def damages(request: Any) -> Any:
        served.append(request.topics[0].partitions[0].fetch_offset)
        if len(served) > 3:
            scripts[C1] = follower_response(2, C2, epoch=4)
            scripts[C2] = leader_response(LOG, end=4, leader=2, epoch=4)
        return leader_response(bytes(damaged), end=4, leader=1)(request)

    scripts = {C1: damages, C2: follower_response(1, C1)}
    controllers = ScriptedClient(loop, scripts)
    output = follow(loop, controllers, lambda output: output.log.endswith(LOG), configured=(C1, C2))

    # Its length follows from the next batch, and its epoch is at most that one's.
    first = bytes(damaged) if at == MAGIC_AT else batch(0, 3, epoch=3) + batch(3, 1, epoch=3)
    assert output.log == first + LOG
    assert [each.reason for each in output.failures] == [Reason.LOG_DAMAGED, Reason.RECORDS_KNOWN]
    damage = output.failures[0].damage
    assert output.failures[0].endpoint == str(C1)
    assert damage is not None
    assert (damage.offset, damage.last_offset, damage.high_watermark) == (0, 2, 4)


def test_a_leader_that_cannot_read_its_log_has_a_damaged_one_until_another_controller_leads(loop: EventLoop) -> None:
    """Kafka answers with UNKNOWN_SERVER_ERROR where it meets a header with an invalid length."""
    asked = count()

    def cannot_read(request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset == 0:
            return leader_response(LOG, end=4, leader=1)(request)
        if next(asked) == 2:
            scripts[C1] = follower_response(2, C2, epoch=4)
            scripts[C2] = lambda _: fetch_answer(leader=2, epoch=4, high_watermark=5, records=batch(4, 1, epoch=4))
        return fetch_answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, leader=1)

    scripts = {C1: cannot_read, C2: follower_response(1, C1)}
    controllers = ScriptedClient(loop, scripts)
    last, start = batch(4, 1, epoch=4), FetchPosition(offset=4, epoch=3)
    output = follow(loop, controllers, lambda output: output.log == last, configured=(C1, C2), start=start)

    assert {(each.reason, each.endpoint, each.detail) for each in output.failures} == {
        (Reason.LOG_DAMAGED, str(C1), "the leader cannot read its log at offset 4 (UNKNOWN_SERVER_ERROR)")
    }
    damage = {each.damage for each in output.failures}
    assert damage == {DamagedBatch(offset=Offset(4), high_watermark=Offset(4))}


def test_a_torn_snapshot_is_damage_and_its_sound_part_is_read_once(loop: EventLoop) -> None:
    sound = b"".join(batch(at, 5, epoch=2) for at in range(4))
    whole = leader_with_snapshot(sound + batch(4, 5, epoch=2), piece_bytes=len(sound), failures=[])
    asked: list[int] = []

    def damaged_twice(request: Any) -> Any:
        answer = whole(request)
        if isinstance(request, FetchSnapshotRequest):
            asked.append(request.topics[0].partitions[0].position)
            if asked[-1] and asked.count(asked[-1]) <= 2:
                content = bytearray(answer.topics[0].partitions[0].unaligned_records)
                content[8:12] = (2**31 - 20).to_bytes(4, "big")
                answer.topics[0].partitions[0].unaligned_records = bytes(content)
        return answer

    controllers = ScriptedClient(loop, {C1: damaged_twice})
    output = follow(loop, controllers, lambda output: bool(output.log), configured=(C1,))
    assert asked == [0, *[len(sound)] * 3]
    place = DamagedBatch(snapshot=SnapshotId(end_offset=Offset(9), epoch=Epoch(2)), position=len(sound))
    found = [(event.reason, replace(event.damage or place, high_watermark=None)) for event in output.failures]
    assert found == [(Reason.LOG_DAMAGED, place)] * 2
    assert output.log == batch(9, 2, epoch=3)


def test_a_snapshot_that_its_leader_names_and_does_not_send_is_damage(loop: EventLoop) -> None:
    whole = leader_with_snapshot(batch(0, 20, epoch=2), piece_bytes=10_000, failures=[])
    refusals = iter([True] * 3)

    def refuses(request: Any) -> Any:
        refused = isinstance(request, FetchSnapshotRequest) and next(refusals, False)
        return refused_piece() if refused else whole(request)

    output = follow(loop, ScriptedClient(loop, {C1: refuses}), lambda output: bool(output.log), configured=(C1,))
    why = "the leader names this snapshot and does not send it (UNKNOWN_SERVER_ERROR)"
    assert {(each.reason, each.detail) for each in output.failures} == {(Reason.LOG_DAMAGED, why)}
    assert output.log == batch(9, 2, epoch=3), "it is asked again"


def test_refused_snapshot_is_reported_and_read_once_the_node_tells_the_truth(loop: EventLoop) -> None:
    file = b"".join(batch(at, 5, epoch=2) for at in range(4))
    truth = leader_with_snapshot(file, piece_bytes=10_000, failures=[])
    lies = iter((2**62, 2**40, None))

    def lies_twice(request: Any) -> Any:
        answer = truth(request)
        if isinstance(request, FetchSnapshotRequest) and (size := next(lies, None)) is not None:
            answer.topics[0].partitions[0].size = size
        return answer

    controllers = ScriptedClient(loop, {C1: lies_twice})
    output = follow(loop, controllers, lambda output: bool(output.log), configured=(C1,))
    assert [event.reason for event in output.failures] == [Reason.INVALID_RESPONSE] * 2
    assert "size is 4611686018427387904" in output.failures[0].detail
    assert len(output.pieces) == 1, "nothing of a refused snapshot is written"
    assert output.log == batch(9, 2, epoch=3)
