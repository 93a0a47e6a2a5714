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
"""Sends FetchSnapshot v0 (FetchSnapshotRequest.json)."""
import struct

from metadata_requests import METADATA, leader, sent


def fetched(end_offset, epoch, leader_epoch):
    """Returns the error of the answer, and how many topics it has."""
    snapshot = struct.pack(">qi", end_offset, epoch) + b"\0"
    partition = struct.pack(">ii", 0, leader_epoch) + snapshot + struct.pack(">q", 0) + b"\0"
    answer = sent(59, 0, struct.pack(">ii", -1, 1000) + b"\x02" + METADATA + b"\x02" + partition + b"\0" + b"\0")
    _throttled, error = struct.unpack(">ih", answer[:6])
    return error, answer[6] - 1


epoch, _ = leader()
found = {"a snapshot that there is not": fetched(123456, epoch, epoch), "an older epoch": fetched(1, 1, epoch - 1)}
for name, (error, topics) in found.items():
    print(f"{name}: error {error}, {topics} topics")
if any(answer != (-1, 0) for answer in found.values()):
    raise SystemExit("seen instead: the errors that KIP-630 names")
PYTHON
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0")/lib python3 "$folder/shown.py" "$1"
