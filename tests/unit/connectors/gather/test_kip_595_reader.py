"""KIP-595: the log follower fetches as an observer does: which nodes it queries, and where it resumes."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.log_follower import LogFollower
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.model.monitoring import FailedObservation, Reason
from tests.scripts.log_script import LogScript, apply, machine
from tests.unit.connectors.gather import polled_quorum
from tests.unit.connectors.gather.follower_answers import LOG, follow, follower_response, leader_response
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.gather.scripted_cluster import C1, C2, C3, RecordedOutput, Script, ScriptedClient
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer

MORE = batch(4, 2, epoch=5)


@pytest.fixture
def loop(simulated_time_loop: EventLoop) -> EventLoop:
    return simulated_time_loop


def follow_for(
    loop: EventLoop, controllers: ScriptedClient, nodes: NodeDirectory, *steps: float | Callable[[], object]
) -> RecordedOutput:
    """Follows the log, and waits so many seconds, or calls, in order."""
    output = RecordedOutput()

    async def main() -> None:
        loop.spawn(LogFollower(controllers, nodes, output).run())  # type: ignore[arg-type]
        for step in steps:
            if callable(step):
                step()
            else:
                await loop.sleep(step)

    loop.run(main)
    return output


def cluster_ids(controllers: ScriptedClient) -> set[str | None]:
    return {request.cluster_id for _, request in controllers.sent}


def leader_of_epoch_5(request: Any) -> Any:
    """The next leader; its log continues after LOG."""
    partition = request.topics[0].partitions[0]
    if partition.current_leader_epoch != 5:
        return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=5)
    position = (partition.fetch_offset, partition.last_fetched_epoch)
    return fetch_answer(leader=2, epoch=5, high_watermark=6, records=MORE if position == (4, 3) else b"")


def leader_change(error: int, *, leader: int, at: Address | None) -> dict[Address, Script]:
    """Controller 1 leads until LOG is read, then 2 leads; from then on 1 answers with this error and leader."""
    scripts: dict[Address, Script] = {}

    def first(request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset == 4:
            scripts[C2] = leader_of_epoch_5
        if scripts[C2] is leader_of_epoch_5:
            return fetch_answer(error=error, leader=leader, epoch=5, at=at)
        return leader_response(LOG, end=4, leader=1)(request)

    scripts |= {C1: first, C2: follower_response(1, C1)}
    return scripts


@pytest.mark.parametrize("error", [6, 74])
def test_former_leader_reports_the_new_one_and_fetching_resumes_there_at_the_same_offset(
    loop: EventLoop, error: int
) -> None:
    controllers = ScriptedClient(loop, leader_change(error, leader=2, at=C2))

    output = follow(loop, controllers, lambda output: output.log == LOG + MORE, configured=(C1,))

    assert output.log == LOG + MORE, "no byte is fetched twice"
    positions = controllers.positions
    begins = positions.index((C1, 3, 4, 3)) + 1
    assert positions[begins : begins + 2] == [(C2, 5, 3, 3), (C2, 5, 4, 3)], (
        "the next fetches go to the new leader, with the new epoch: of the newest batch, and of the next"
    )
    assert output.failures == []
    assert cluster_ids(controllers) == {"x"}


@pytest.mark.parametrize("error", [6, 74])
def test_other_controllers_are_queried_if_the_former_leader_knows_no_leader(loop: EventLoop, error: int) -> None:
    controllers = ScriptedClient(loop, leader_change(error, leader=-1, at=None))

    output = follow(loop, controllers, lambda output: output.log == LOG + MORE, configured=(C1, C2))

    assert output.log == LOG + MORE


def test_after_an_offset_out_of_range_no_record_is_read_again(loop: EventLoop) -> None:
    refused: list[int] = []

    def leader(request: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        if offset == 4 and not refused:
            refused.append(offset)
            return fetch_answer(error=1)
        return leader_response(LOG, end=4, leader=1)(request)

    controllers = ScriptedClient(loop, {C1: leader})

    output = follow(
        loop, controllers, lambda _: [offset for *_, offset, _ in controllers.positions].count(4) > 2, configured=(C1,)
    )

    assert output.log == LOG
    (failure,) = output.failures
    assert (failure.reason, failure.detail) == (Reason.UNSUPPORTED, "Fetch: OFFSET_OUT_OF_RANGE")


def test_of_two_reported_leaders_that_of_the_newer_epoch_is_asked(loop: EventLoop) -> None:
    reports = {
        C1: lambda _: fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2, epoch=5, at=C2),
        C3: lambda _: fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=4, epoch=3, at=Address("c4", 9093)),
    }
    controllers = ScriptedClient(loop, {**reports, C2: leader_response(LOG, end=4)})

    follow(loop, controllers, lambda output: output.log == LOG, configured=(C1, C3))

    assert controllers.queried[:3] == [C1, C3, C2]


def test_a_node_of_another_cluster_does_not_delay_the_search_among_the_others(loop: EventLoop) -> None:
    of_another_cluster = lambda _: fetch_answer(top=ErrorCode.INCONSISTENT_CLUSTER_ID)  # noqa: E731 - a script
    controllers = ScriptedClient(loop, {C1: of_another_cluster, C2: follower_response(-1, None)})
    output = follow_for(loop, controllers, NodeDirectory(configured=(C1, C2), cluster_id="x"), 60)

    assert output.reasons(C1) == {Reason.WRONG_CLUSTER}
    assert controllers.queried.count(C2) > 50, "about once a second"


def test_all_controllers_are_queried_about_once_a_second_until_one_leads(loop: EventLoop) -> None:
    scripts = {C1: follower_response(-1, None), C2: follower_response(-1, None)}
    controllers = ScriptedClient(loop, scripts)
    nodes = NodeDirectory(configured=(C1, C2), cluster_id=None)
    found = lambda: scripts.update({C2: leader_response(LOG, end=4)})  # noqa: E731 - one of the steps
    output = follow_for(loop, controllers, nodes, 120, found, 5)

    assert output.log == LOG
    assert output.reasons(C1) == output.reasons(C2) == {Reason.NO_LEADER}
    assert {one.detail for one in output.failures} == {"the node knows no leader"}
    attempts = controllers.queried.count(C1)
    assert 100 < attempts < 150, "for two minutes, about once a second"
    assert cluster_ids(controllers) == {None}, "the cluster id is not known"


def test_a_search_that_every_controller_denied_is_repeated_and_not_given_up(loop: EventLoop) -> None:
    scripts: dict[Address, Script] = {C1: lambda _: fetch_answer(top=31)}
    controllers = ScriptedClient(loop, scripts)
    allow = lambda: scripts.update({C1: leader_response(LOG, end=4, leader=1)})  # noqa: E731 - one of the steps
    output = follow_for(loop, controllers, NodeDirectory(configured=(C1,), cluster_id="x"), 60, allow, 10)

    assert output.reasons(C1) == {Reason.DENIED}
    assert output.log == LOG


def test_poll_waits_for_its_interval_while_no_controller_leads(loop: EventLoop) -> None:
    queried_at: list[float] = []

    def in_election(_: Any) -> Any:
        queried_at.append(loop.now())
        return polled_quorum.leader_response() if len(queried_at) >= 10 else polled_quorum.follower_response()

    output, _ = polled_quorum.poll(loop, {C1: in_election}, seconds=5)

    assert output.reasons(C1) == {Reason.NO_LEADER}
    assert output.polls
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(queried_at)), "the poll's interval here"


def test_log_follower_without_a_position_fetches_from_offset_0(loop: EventLoop) -> None:
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4, leader=1)})

    output = follow(loop, controllers, lambda output: output.log == LOG, configured=(C1,))

    assert output.log == LOG
    positions = [position for _, _, *position in controllers.positions]
    assert positions[:3] == [[0, 0]] * 3, "offset and epoch; the first two fetches search the leader"


def test_next_fetch_is_sent_only_after_the_previous_one_was_answered(loop: EventLoop) -> None:
    batches = [batch(offset, 1, epoch=3) for offset in range(50)]

    def one_by_one(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != 3:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=1, epoch=3, at=C1)
        next_batch = batches[partition.fetch_offset : partition.fetch_offset + 1]
        return fetch_answer(leader=1, high_watermark=50, records=b"".join(next_batch))

    controllers = ScriptedClient(loop, {C1: one_by_one})
    output = follow(loop, controllers, lambda output: output.log == b"".join(batches), configured=(C1,))

    assert output.log == b"".join(batches)
    assert controllers.most_pending == 1


def test_a_controller_that_has_not_answered_the_search_is_not_sent_another_fetch(loop: EventLoop) -> None:
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4, leader=1)}, answer_s=2.5)
    output = follow(loop, controllers, lambda output: len(output.failures) > 1, configured=(C1,))

    assert output.reasons(C1) == {Reason.TIMED_OUT}, "the search was repeated"
    assert controllers.queried == [C1]


def leader_with_older_log(*, epoch: int) -> Script:
    """A leader of this epoch whose log ends at offset 4 and whose high watermark advances; the previous epoch is 3."""
    end = iter(range(5, 1_000))

    def script(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        sent_epoch = partition.current_leader_epoch
        if sent_epoch == 0:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=1, epoch=3, at=C1)
        if sent_epoch != epoch:
            return fetch_answer(
                error=ErrorCode.FENCED_LEADER_EPOCH if sent_epoch < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH,
                leader=1,
                epoch=epoch,
                at=C1,
            )
        if partition.last_fetched_epoch > epoch:
            return fetch_answer(error=42)
        if partition.fetch_offset > 4:
            diverging = PARTITION.EpochEndOffset(epoch=3, end_offset=4)
            return fetch_answer(leader=1, epoch=epoch, high_watermark=next(end), diverging_epoch=diverging)
        return fetch_answer(leader=1, epoch=epoch, high_watermark=next(end))

    return script


@pytest.mark.parametrize("epoch", [2, 3, 8])
def test_leader_without_committed_records_is_critical_for_older_and_newer_epochs(loop: EventLoop, epoch: int) -> None:
    """Only uncommitted records may be truncated; the leader always has the committed ones."""
    controllers = ScriptedClient(loop, {C1: leader_response(LOG, end=4, leader=1)})
    ledger, replay = LogScript(), machine()
    ledger.leader(1)
    ledger.noops(49)
    known = apply(replay, [ledger.read()])
    assert [one.rule for one in evaluate(Facts(known), thresholds_for({})).findings if one.severity == "critical"] == []
    controllers.scripts[C1] = leader_with_older_log(epoch=epoch)

    lost: Callable[[RecordedOutput], list[FailedObservation]] = lambda output: [  # noqa: E731 - used twice
        one for one in output.failures if one.reason is Reason.METADATA_LOST
    ]
    start = FetchPosition(offset=50, epoch=3)
    output = follow(loop, controllers, lambda output: bool(lost(output)), configured=(C1,), start=start)

    (failure,) = lost(output)
    assert "offset 49 of epoch 3 was committed" in failure.detail
    quorum = apply(replay, [ledger.row(failure)])
    found = evaluate(Facts(quorum), thresholds_for({})).findings
    assert [str(one.severity) for one in found if one.rule == "committed-metadata-lost"] == ["critical"]
