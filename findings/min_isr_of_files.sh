#!/bin/sh
# Apache Kafka 4.4.0: in a new cluster, min.insync.replicas in the files of the brokers does not count. Eligible leader
# replicas (KIP-966) are on, and the active controller has written its own value, 1 by default, into the metadata log.
#
# Expected: with min.insync.replicas=2 in the file of each broker, a producer with acks=all is refused while a partition
# has one in-sync replica (NOT_ENOUGH_REPLICAS), as in a cluster without eligible leader replicas.
# Seen: it is acknowledged. kafka-configs shows the value of the controller, as a dynamic default of the cluster.
# So: set min.insync.replicas as the cluster's default or for each topic by kafka-configs, never by the brokers' files.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 3)
voters="controller.quorum.voters=1@127.0.0.1:$1"
properties 1 controller "$1" "$voters"
format 1
start 1 "$1"
for each in 2 3; do
    eval "port=\$$each"
    properties $each broker "$port" "$voters" min.insync.replicas=2
    format $each
    start $each "$port"
done
server="--bootstrap-server 127.0.0.1:$2"
created() {
    tool org.apache.kafka.tools.TopicCommand $server --create --topic shown --partitions 1 --replication-factor 2
    [ "$code" = 0 ]
}
within 90 created || seen "$printed"
kill -9 "$node"
one_in_sync() {
    tool org.apache.kafka.tools.TopicCommand $server --describe --topic shown
    echo "$printed" | grep -q 'Isr: *2[^,]*$\|Isr: *2[[:space:]]'
}
within 90 one_in_sync || seen "$printed"
echo "$printed"
tool org.apache.kafka.tools.ProducerPerformance --topic shown --num-records 5 --record-size 10 --throughput -1 \
    --producer-props "bootstrap.servers=127.0.0.1:$2" acks=all delivery.timeout.ms=20000 request.timeout.ms=10000 linger.ms=0
echo "$printed" | tail -1
echo "$printed" | grep -q '^5 records sent' && ! echo "$printed" | grep -q NotEnoughReplicas || seen "$printed"
tool org.apache.kafka.tools.ConfigCommand $server --describe --entity-type brokers --entity-name 2 --all
echo "$printed" | grep 'min.insync.replicas'
echo "$printed" | grep -q 'min.insync.replicas=1 .*DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, STATIC_BROKER_CONFIG:min.insync.replicas=2' || seen "$printed"
