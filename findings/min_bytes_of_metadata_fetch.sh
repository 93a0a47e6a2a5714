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
"""Sends Fetch v15 (FetchRequest.json)."""
import struct
import time

from metadata_requests import leader, sent

METADATA_ID = bytes(15) + b"\x01"


def fetched(epoch, end):
    """Returns the answer to a Fetch from the end of the log that waits up to five seconds for 1,000,000 bytes."""
    request = struct.pack(">iiibii", 5000, 1_000_000, 8_000_000, 0, 0, -1)
    partition = struct.pack(">iiqiqi", 0, epoch, end, epoch, 0, 8_000_000) + b"\0"
    return sent(1, 15, request + b"\x02" + METADATA_ID + b"\x02" + partition + b"\0" + b"\x01" + b"\x01" + b"\0")


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
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0")/lib python3 "$folder/shown.py" "$1"
