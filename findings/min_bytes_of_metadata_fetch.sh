#!/bin/sh
# Apache Kafka 4.4.0: the leader of the metadata quorum answers a Fetch with its first record, whatever MinBytes says.
#
# Expected (FetchRequest.json): with MinBytes 1,000,000 and MaxWaitMs 5,000 the answer comes after five seconds, with what
# was appended meanwhile; a broker does so for its topics.
# Seen: it comes with the next record, so after half a second at most, because the leader appends a NoOp twice a second
# with its defaults (KafkaRaftClient completes a waiting Fetch at each append, and does not read MinBytes).
# So: to read the logs of many quorums less often, wait before the Fetch, not in it.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 1)
properties 1 controller "$1" "controller.quorum.voters=1@127.0.0.1:$1"
format 1
start 1 "$1"
cat > "$folder/shown.py" <<'PYTHON'
"""Sends Fetch v15 (FetchRequest.json) and DescribeQuorum v0 as bytes."""
import socket
import struct
import sys
import time

METADATA = b"\x13__cluster_metadata"
METADATA_ID = bytes(15) + b"\x01"


def sent(key, version, body):
    """Returns the body of the answer, after its correlation id and its tagged fields."""
    header = struct.pack(">hhih", key, version, 7, -1) + b"\0"
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        return answer.read(size)[5:]


def leader():
    """Returns epoch and high watermark by DescribeQuorum; None while there is no leader or no high watermark."""
    answer = sent(55, 0, b"\x02" + METADATA + b"\x02" + struct.pack(">i", 0) + b"\0\0\0")
    at = answer.index(METADATA) + len(METADATA) + 1
    _partition, error, leader_id, epoch, end = struct.unpack(">ihiiq", answer[at : at + 22])
    return (epoch, end) if error == 0 and leader_id == 1 and end > 0 else None


def fetched(epoch, end):
    """Returns the answer to a Fetch from the end of the log that waits up to five seconds for 1,000,000 bytes."""
    request = struct.pack(">iiibii", 5000, 1_000_000, 8_000_000, 0, 0, -1)
    partition = struct.pack(">iiqiqi", 0, epoch, end, epoch, 0, 8_000_000) + b"\0"
    return sent(1, 15, request + b"\x02" + METADATA_ID + b"\x02" + partition + b"\0" + b"\x01" + b"\x01" + b"\0")


end = time.monotonic() + 60
while (found := leader()) is None:
    if time.monotonic() > end:
        raise SystemExit("no leader within 60 s")
    time.sleep(0.3)
took = []
for _ in range(5):
    epoch, offset = leader()
    before = time.monotonic()
    answer = fetched(epoch, offset)
    took.append(time.monotonic() - before)
    _throttled, error = struct.unpack(">ih", answer[:6])
    print(f"an answer of {len(answer)} bytes after {took[-1]:.2f} s, error {error}")
    if error or len(answer) < 100:
        raise SystemExit("seen instead: an error, or an answer without records")
if max(took) >= 4:
    raise SystemExit("seen instead: a Fetch that waits")
PYTHON
python3 "$folder/shown.py" "$1"
