"""What nodes answer to a follower of the log."""

from collections.abc import Callable
from typing import Any

from connectors.gather import log_follower
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.log_follower import LogFollower
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.gather.scripted_cluster import (
    RecordedOutput,
    ScriptedClient,
    run_until,
)
from tests.unit.connectors.kafka.kafka_answers import fetch_answer


def leader_response(log: bytes, *, end: int, leader: int = 2, epoch: int = 3) -> Callable[[Any], Any]:
    """A leader whose whole log is committed."""

    def script(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != epoch:
            return fetch_answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader=leader, epoch=epoch)
        records = log if partition.fetch_offset == 0 else b""
        return fetch_answer(leader=leader, epoch=epoch, high_watermark=end, records=records)

    return script


def follower_response(leader: int, at: Address | None, *, epoch: int = 3) -> Callable[[Any], Any]:
    return lambda _: fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=leader, epoch=epoch, at=at)


def follow(
    loop: EventLoop,
    controllers: ScriptedClient,
    until: Callable[[RecordedOutput], bool],
    *,
    configured: tuple[Address, ...],
    start: FetchPosition = log_follower.START,
) -> RecordedOutput:
    output = RecordedOutput()
    nodes = NodeDirectory(configured=configured, cluster_id="x")
    follower = LogFollower(controllers, nodes, output, start=start)  # type: ignore[arg-type]
    run_until(loop, follower.run(), lambda: until(output))
    return output


LOG = batch(0, 3, epoch=1) + batch(3, 1, epoch=3)
