"""AlterPartition (KIP-497), which a partition's leader sends to the controller; kafka-python does not support it."""

import base64
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deploy.lab import LabError

_ALTER_PARTITION, _VERSION = 56, 2
_CORRELATION = 7
_RESPONSE_S = 180.0
"""A controller that has just been elected may still be reading a large snapshot."""
_ERROR_AT = 9
"""Behind the header with its tags, and the throttle time."""
_PARTITION_ERROR_AT = 33
"""Behind the topic's id and the partition's number; then leader, its epoch, ISR, recovery state, partition epoch."""
_NOT_CONTROLLER = 41


class NotActiveError(LabError):
    """The node is no active controller, or not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPartition:
    """A partition as its leader, the first of its replicas, knows it."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    in_sync: int
    """How many of the replicas are in sync: the first ones."""
    leader_epoch: int
    partition_epoch: int
    broker_epoch: int
    """Of the leader's registration."""


def alter_partition(port: int, before: LedPartition, in_sync: int) -> LedPartition:
    """Makes the first `in_sync` replicas the ISR of a partition; returns it as the controller has stored it.

    Raises:
        NotActiveError: the controller is not active.
        LabError: the controller on 127.0.0.1:`port` refuses the change, or does not answer.
    """
    isr = before.replicas[:in_sync]
    partition = (
        struct.pack(">ii", before.partition, before.leader_epoch)
        + _integers(isr)
        + struct.pack(">bi", 0, before.partition_epoch)
        + b"\0"
    )
    topic = base64.urlsafe_b64decode(before.topic_id + "==") + b"\2" + partition + b"\0"
    body = struct.pack(">iq", before.replicas[0], before.broker_epoch) + b"\2" + topic + b"\0"
    answer = _exchange(port, body)
    (error,) = struct.unpack_from(">h", answer, _ERROR_AT)
    if not error:
        (error,) = struct.unpack_from(">h", answer, _PARTITION_ERROR_AT)
    if error == _NOT_CONTROLLER:
        raise NotActiveError(f"the controller at port {port} is not active")
    if error:
        raise LabError(f"the controller refuses to change {before}: error {error}")
    leader_epoch, count = struct.unpack_from(">ib", answer, _PARTITION_ERROR_AT + 6)
    (partition_epoch,) = struct.unpack_from(">i", answer, _PARTITION_ERROR_AT + 11 + 4 * (count - 1) + 1)
    return replace(before, in_sync=in_sync, leader_epoch=leader_epoch, partition_epoch=partition_epoch)


def _exchange(port: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", _ALTER_PARTITION, _VERSION, _CORRELATION, -1) + b"\0" + body
    try:
        with socket.create_connection(("127.0.0.1", port), _RESPONSE_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as response:
                (length,) = struct.unpack(">i", response.read(4))
                answer = response.read(length)
    except (OSError, struct.error) as error:
        raise LabError(f"the controller at port {port} does not answer AlterPartition: {error}") from error
    assert struct.unpack_from(">i", answer) == (_CORRELATION,)
    return answer


def _integers(values: Sequence[int]) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)
