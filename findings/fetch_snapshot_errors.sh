#!/bin/sh
# Apache Kafka 4.4.0: each error of a FetchSnapshot request arrives as UNKNOWN_SERVER_ERROR (-1) of the whole answer.
#
# Expected (KIP-630, KIP-595): the partition has SNAPSHOT_NOT_FOUND (98) for a snapshot that there is not, and
# FENCED_LEADER_EPOCH (74) with the current leader for an older epoch.
# Seen: error -1 and no partition, for both. The node cannot write its own answer (its log has the exception), so who
# fetches cannot tell a deleted snapshot from a leader that has changed.
# So: after -1 ask again by Fetch, which names the leader and its newest snapshot.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 1)
properties 1 controller "$1" "controller.quorum.voters=1@127.0.0.1:$1"
format 1
start 1 "$1"
cat > "$folder/shown.py" <<'PYTHON'
"""Sends FetchSnapshot v0 (FetchSnapshotRequest.json) and DescribeQuorum v0 as bytes."""
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


def fetched(end_offset, epoch, leader_epoch):
    """Returns the error of the answer, and how many topics it has."""
    snapshot = struct.pack(">qi", end_offset, epoch) + b"\0"
    partition = struct.pack(">ii", 0, leader_epoch) + snapshot + struct.pack(">q", 0) + b"\0"
    answer = sent(59, 0, struct.pack(">ii", -1, 1000) + b"\x02" + METADATA + b"\x02" + partition + b"\0" + b"\0")
    _throttled, error = struct.unpack(">ih", answer[:6])
    return error, answer[6] - 1


def leader_epoch():
    """Returns the epoch of the leader, by DescribeQuorum; None while there is none."""
    answer = sent(55, 0, b"\x02" + METADATA + b"\x02" + struct.pack(">i", 0) + b"\0\0\0")
    at = answer.index(METADATA) + len(METADATA) + 1
    _partition, error, leader, epoch = struct.unpack(">ihii", answer[at : at + 14])
    return epoch if error == 0 and leader == 1 else None


end = time.monotonic() + 60
while (epoch := leader_epoch()) is None:
    if time.monotonic() > end:
        raise SystemExit("no leader within 60 s")
    time.sleep(0.3)
found = {"a snapshot that there is not": fetched(123456, epoch, epoch), "an older epoch": fetched(1, 1, epoch - 1)}
for name, (error, topics) in found.items():
    print(f"{name}: error {error}, {topics} topics")
if any(answer != (-1, 0) for answer in found.values()):
    raise SystemExit("seen instead: the errors that KIP-630 names")
PYTHON
python3 "$folder/shown.py" "$1"
