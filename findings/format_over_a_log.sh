#!/bin/sh
# Apache Kafka 4.4.0: `kafka-storage format` formats over a directory that has a whole metadata log, if meta.properties is
# missing, without a word. The controller then has a new directory id, so it is no voter of its own log any more.
#
# Expected: a refusal, or a warning, that the directory has a log of __cluster_metadata; as for a directory that is
# formatted already, which is refused without --ignore-formatted.
# Seen: exit code 0. The quorum of this one controller never has a leader again, and its data is all there: writing the
# former directory.id into meta.properties brings it back.
# So: never delete meta.properties to get past an error, and compare logs before a disk with a new id is called empty.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 1)
properties 1 controller "$1" "controller.quorum.bootstrap.servers=127.0.0.1:$1"
leads() { grep -q 'CandidateState.*toLeader\|Completed transition to Leader' "$folder/1.log"; }
has_leader() {
    tool org.apache.kafka.tools.MetadataQuorumCommand --bootstrap-controller "127.0.0.1:$1" describe --status
    [ "$code" = 0 ] && echo "$printed" | grep -q '^LeaderId: *1$'
}
stopped() { kill "$node"; wait "$node" 2>/dev/null || :; }
directory() { sed -n 's/^directory.id=//p' "$folder/1/meta.properties"; }

format 1 --standalone
start 1 "$1"
within 60 has_leader "$1" || seen "$printed"
stopped
former=$(directory)
format 1 --standalone
[ "$code" != 0 ] || seen "it formats a directory again that is formatted: $printed"
rm "$folder/1/meta.properties"
format 1 --standalone
echo "exit code $code: $printed"
[ "$code" = 0 ] || seen "$printed"
[ -s "$folder/1/__cluster_metadata-0/00000000000000000000.log" ] || seen "the log is gone"
[ "$(directory)" != "$former" ] || seen "the directory id is the same"
start 1 "$1"
if within 30 has_leader "$1"; then seen "a leader with the new directory id: $printed"; fi
echo "with a new directory id: no leader within 30 s"
stopped
sed -i "s/^directory.id=.*/directory.id=$former/" "$folder/1/meta.properties"
start 1 "$1"
within 60 has_leader "$1" || seen "$printed"
echo "with the former directory id: a leader"
