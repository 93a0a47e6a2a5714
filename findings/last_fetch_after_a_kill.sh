#!/bin/sh
# Apache Kafka 4.4.0: DescribeQuorum reports a last fetch of a replica that is later than the end of its process.
#
# Expected: LastFetchTimestamp is when the replica's last Fetch arrived, so not later than its process was killed.
# Seen: the leader keeps a Fetch that finds no records for up to 500 ms (MAX_FETCH_WAIT_MS) and counts it again when it
# appends a record meanwhile (KafkaRaftClient.tryCompleteFetchRequest), as it does twice a second with its defaults. That
# the connection is gone does not matter.
# So: a fetch after a moment shows that the replica ran after it only if it is later by more than that wait.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 2)
quorum="controller.quorum.voters=1@127.0.0.1:$1"
properties 1 controller "$1" "$quorum"
format 1
start 1 "$1"
properties 2 broker "$2" "$quorum"
format 2
last_fetch() {
    tool org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-controller "127.0.0.1:$1" describe --replication
    fetched=$(echo "$printed" | awk '$1 == 2 { print $(NF - 2) }')
    [ -n "$fetched" ]
}
later=0
for each in 1 2 3 4 5; do
    start 2 "$2"
    within 60 last_fetch "$1" || seen "$printed"
    sleep 3
    killed=$(date +%s%3N)
    kill -9 "$node"
    last_fetch "$1" || seen "$printed"
    echo "last fetch: $((fetched - killed)) ms after the kill"
    [ $((fetched - killed)) -le 20 ] || later=$((later + 1))
done
[ "$later" -ge 1 ] || seen "no last fetch is later than the kill"
