"""Requests about the log of a metadata quorum as bytes, for the scripts about Kafka: the first argument is a port."""

import socket
import struct
import sys
import time

METADATA = b"\x13__cluster_metadata"


def sent(key, version, body):
    """Returns the body of the answer, after its correlation id and its tagged fields."""
    header = struct.pack(">hhih", key, version, 7, -1) + b"\0"
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        return answer.read(size)[5:]


def leader():
    """Returns epoch and high watermark by DescribeQuorum v0; waits until there is a leader with a high watermark."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        answer = sent(55, 0, b"\x02" + METADATA + b"\x02" + struct.pack(">i", 0) + b"\0\0\0")
        at = answer.index(METADATA) + len(METADATA) + 1
        _partition, error, leader_id, epoch, offset = struct.unpack(">ihiiq", answer[at : at + 22])
        if error == 0 and leader_id == 1 and offset > 0:
            return epoch, offset
        time.sleep(0.3)
    raise SystemExit("no leader within 60 s")
