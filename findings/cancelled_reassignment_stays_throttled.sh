#!/bin/sh
# Apache Kafka 4.4.0: a throttled reassignment whose new broker has died is cancelled by `kafka-reassign-partitions
# --cancel`, but its throttles stay, and kafka-configs at a broker can neither show nor delete those of the dead broker.
#
# Expected: --cancel removes the throttles that --execute has set, as it says without --preserve-throttles.
# Seen: the reassignment ends at once; then the tool waits for the dead broker for a minute and ends with exit code 1.
# The topic keeps its lists of throttled replicas, the dead broker its rate, and would copy slowly when it is back.
# So: look for replication throttles without a reassignment, and delete a dead broker's with --bootstrap-controller.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 4)
voters="controller.quorum.voters=1@127.0.0.1:$1"
properties 1 controller "$1" "$voters"
format 1
start 1 "$1"
for each in 2 3 4; do
    eval "port=\$$each"
    properties $each broker "$port" "$voters"
    format $each
    start $each "$port"
done
server="--bootstrap-server 127.0.0.1:$2"
created() {
    tool org.apache.kafka.tools.TopicCommand $server --create --topic shown --replica-assignment 2:3
    [ "$code" = 0 ]
}
within 90 created || seen "$printed"
tool org.apache.kafka.tools.ProducerPerformance --topic shown --num-records 4000 --record-size 1000 --throughput -1 \
    --producer-props "bootstrap.servers=127.0.0.1:$2" acks=all
echo '{"version":1,"partitions":[{"topic":"shown","partition":0,"replicas":[2,4]}]}' > "$folder/plan.json"
reassign() { tool org.apache.kafka.tools.reassign.ReassignPartitionsCommand $server --reassignment-json-file "$folder/plan.json" "$@"; }
all_registered() { reassign --execute --throttle 1000; [ "$code" = 0 ]; }
within 90 all_registered || seen "$printed"
kill -9 "$node"
echo "broker 4 is killed while it copies"
reassign --cancel
echo "--cancel: exit code $code"
[ "$code" = 1 ] || seen "$printed"
tool org.apache.kafka.tools.TopicCommand $server --describe --topic shown
echo "$printed"
echo "$printed" | grep -q 'Replicas: *2,3' || seen "the reassignment goes on"
echo "$printed" | grep -q 'leader.replication.throttled.replicas=0:' || seen "the topic is not throttled any more"
newest_rate() { # the newest record of broker 4's rate in the metadata log
    tool org.apache.kafka.tools.DumpLogSegments --cluster-metadata-decoder \
        --files "$folder/1/__cluster_metadata-0/00000000000000000000.log"
    echo "$printed" | grep '"resourceName":"4","name":"follower.replication.throttled.rate"' | tail -1 | grep -o '"value":[^}]*'
}
rate=$(newest_rate)
echo "the metadata log, broker 4's rate: $rate"
[ "$rate" = '"value":"1000"' ] || seen "$rate"
configs() { tool org.apache.kafka.tools.ConfigCommand "$@" --entity-type brokers --entity-name 4; }
rates=leader.replication.throttled.rate,follower.replication.throttled.rate
configs $server --describe
echo "kafka-configs at a broker: $(echo "$printed" | tail -1)"
case $printed in *"doesn't exist"*) ;; *) seen "$printed" ;; esac
configs $server --alter --delete-config "$rates"
echo "at a broker, delete: exit code $code: $(echo "$printed" | head -1 | cut -c 1-200)"
[ "$code" = 1 ] || seen "$printed"
configs --bootstrap-controller "127.0.0.1:$1" --alter --delete-config "$rates"
echo "at the controller, delete: exit code $code: $printed"
[ "$code" = 0 ] || seen "$printed"
rate=$(newest_rate)
echo "the metadata log then: $rate"
[ "$rate" = '"value":null' ] || seen "$rate"
