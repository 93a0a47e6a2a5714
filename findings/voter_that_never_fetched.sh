#!/bin/sh
# Apache Kafka 4.4.0: `kafka-metadata-quorum describe --status` prints MaxFollowerLagTimeMs -1 while a voter has not fetched
# since the election.
#
# Expected: the lag in time of the voter that is furthest behind, so a large value while one of three voters is down.
# Seen: MaxFollowerLag counts the records that the voter lacks, and MaxFollowerLagTimeMs is -1. A monitor that compares
# this time with a threshold never fires for the one voter that needs it.
# So: treat -1 as unknown, and read `--replication`, where this voter's LastCaughtUpTimestamp is -1.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 3)
for each in 1 2; do
    eval "port=\$$each"
    properties $each controller "$port" "controller.quorum.voters=1@127.0.0.1:$1,2@127.0.0.1:$2,3@127.0.0.1:$3"
    format $each
    start $each "$port"
done
has_lag() {
    tool org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-controller "127.0.0.1:$1" describe --status
    [ "$code" = 0 ] && echo "$printed" | grep -q '^MaxFollowerLag: *[1-9][0-9]'
}
within 90 has_lag "$1" || seen "$printed"
echo "$printed" | grep MaxFollowerLag
echo "$printed" | grep -q '^MaxFollowerLagTimeMs: *-1$' || seen "$printed"
tool org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-controller "127.0.0.1:$1" describe --replication
echo "$printed"
echo "$printed" | awk '$1 == 3 && $(NF - 2) == -1 { found = 1 } END { exit !found }' || seen "$printed"
