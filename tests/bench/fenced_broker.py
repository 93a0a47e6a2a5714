"""A broker that exists only as requests: it registers at the active controller, and is fenced and unfenced at will.

Each change is one BrokerRegistrationChangeRecord. The controller responds when the record is committed
(QuorumController.processBrokerHeartbeat). The requests are written by hand, because kafka-python does not have them.
"""

import socket
import struct
import uuid
from dataclasses import dataclass, field
from typing import Self

_BROKER_REGISTRATION, _BROKER_HEARTBEAT = 62, 63
_REGISTRATION_VERSION, _HEARTBEAT_VERSION = 4, 0
_TIMEOUT_S = 10.0
_NAMES = ("metadata", "kraft", "group", "transaction", "eligible.leader.replicas", "share", "streams")
_FEATURES = [f"{name}.version" for name in _NAMES]
_FEATURE_LEVELS = (0, 1_000)
"""Any level that the cluster may have finalized."""


@dataclass(kw_only=True, slots=True)
class FencedBroker:
    """A registered broker without a process; a context manager that holds one connection to the controller."""

    id: int
    cluster_id: str
    port: int
    """The active controller's port on 127.0.0.1."""
    _connection: socket.socket = field(init=False)
    _epoch: int = field(init=False)
    _sent: int = 0

    def __enter__(self) -> Self:
        self._connection = socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._epoch = self._register()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def set_fenced(self, fenced: bool) -> None:
        """Fences or unfences the broker; returns when the change is committed."""
        # The controller unfences a broker only when it has read its own registration, whose offset is the epoch.
        body = struct.pack(">iqq??", self.id, self._epoch, self._epoch + 1, fenced, False) + b"\0"
        answer = self._exchange(_BROKER_HEARTBEAT, _HEARTBEAT_VERSION, body)
        error, _, is_fenced = struct.unpack_from(">h??", answer, 4)
        assert (error, is_fenced) == (0, fenced), f"error {error}, fenced {is_fenced}"

    def _register(self) -> int:
        listener = _compact("PLAINTEXT") + _compact("127.0.0.1") + struct.pack(">Hh", 1, 0) + b"\0"
        features = b"".join(_compact(name) + struct.pack(">hh", *_FEATURE_LEVELS) + b"\0" for name in _FEATURES)
        # No rack, isMigratingZkBroker false; one log directory; no previous epoch.
        identity = struct.pack(">i", self.id) + _compact(self.cluster_id) + uuid.uuid4().bytes
        rest = b"\0\0" + _count(1) + uuid.uuid4().bytes + struct.pack(">q", -1) + b"\0"
        body = identity + _count(1) + listener + _count(len(_FEATURES)) + features + rest
        answer = self._exchange(_BROKER_REGISTRATION, _REGISTRATION_VERSION, body)
        error, epoch = struct.unpack_from(">hq", answer, 4)
        assert error == 0, f"error {error}"
        return int(epoch)

    def _exchange(self, api_key: int, version: int, body: bytes) -> bytes:
        self._sent += 1
        client = b"kraftwatch-bench"
        header = struct.pack(">hhih", api_key, version, self._sent, len(client)) + client + b"\0"
        self._connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        with self._connection.makefile("rb") as stream:
            answer = stream.read(*struct.unpack(">i", stream.read(4)))
        assert answer[:4] == struct.pack(">i", self._sent)
        return answer[5:]


def _compact(text: str) -> bytes:
    """Returns a compact string of at most 126 bytes."""
    content = text.encode()
    return _count(len(content)) + content


def _count(number: int) -> bytes:
    """Returns the length of a compact string or array: one more, as an unsigned varint of one byte."""
    assert number < 127
    return bytes([number + 1])
