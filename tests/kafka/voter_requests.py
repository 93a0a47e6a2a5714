"""AddRaftVoter and RemoveRaftVoter (KIP-853), encoded by hand: kafka-python supports neither."""

import base64
import socket
import struct

ADD, REMOVE = 80, 81
NO_ANSWER = -2
"""Not a Kafka error code: no answer within ten seconds, or the node closed the connection."""
NOT_LEADER, TIMED_OUT, INCONSISTENT_CLUSTER_ID, DUPLICATE_VOTER, VOTER_NOT_FOUND = 6, 7, 104, 126, 127


def add_voter(port: int, cluster_id: str, node: int, directory_id: str, endpoint: str) -> int:
    """Sends AddRaftVoter v0 and returns its error code; the leader waits half a second for the new voter."""
    host, _, listener_port = endpoint.rpartition(":")
    listener = _string("CONTROLLER") + _string(host) + struct.pack(">H", int(listener_port)) + b"\0"
    body = _string(cluster_id) + struct.pack(">ii", 500, node) + _uuid(directory_id) + b"\2" + listener + b"\0"
    return _send(port, ADD, body)


def remove_voter(port: int, cluster_id: str, node: int, directory_id: str) -> int:
    """Sends RemoveRaftVoter v0 and returns its error code."""
    return _send(port, REMOVE, _string(cluster_id) + struct.pack(">i", node) + _uuid(directory_id) + b"\0")


def _send(port: int, api: int, body: bytes) -> int:
    request = struct.pack(">hhih", api, 0, 7, -1) + b"\0" + body
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as response:
                (length,) = struct.unpack(">i", response.read(4))
                correlation, _, _, error = struct.unpack_from(">ibih", response.read(length))
    except (OSError, struct.error):
        return NO_ANSWER
    assert correlation == 7
    return int(error)


def _string(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def _uuid(directory_id: str) -> bytes:
    return base64.urlsafe_b64decode(directory_id + "==")
