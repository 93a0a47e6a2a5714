#!/bin/sh
# Apache Kafka 4.4.0: a broker that was unregistered while it runs does not end at SIGTERM.
#
# Expected: it ends within seconds, as a registered broker without partitions does.
# Seen: no controller accepts its heartbeats, so its controlled shutdown is never granted; it goes on for the five minutes
# after which Kafka gives up, longer than service managers wait before they kill it.
# So: stop a broker before it is unregistered; one that was unregistered while it runs has to be killed.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 3)
voters="controller.quorum.voters=1@127.0.0.1:$1"
properties 1 controller "$1" "$voters"
format 1
start 1 "$1"
properties 2 broker "$2" "$voters"
format 2
start 2 "$2"
registered=$node
properties 3 broker "$3" "$voters"
format 3
start 3 "$3"
ended() { ! kill -0 "$1" 2>/dev/null; }
known() {
    tool org.apache.kafka.tools.BrokerApiVersionsCommand --bootstrap-server "127.0.0.1:$2"
    [ "$(echo "$printed" | grep -c 'id: [23] ')" = 2 ]
}
within 60 known "$@" || seen "$printed"
unregistered() {
    tool org.apache.kafka.tools.ClusterTool unregister --bootstrap-server "127.0.0.1:$2" --id 3
    [ "$code" = 0 ]
}
within 30 unregistered "$@" || seen "$printed"
echo "$printed"
kill "$registered" "$node"
within 60 ended "$registered" || seen "the registered broker goes on too"
echo "the registered broker has ended"
if within 40 ended "$node"; then seen "the unregistered broker has ended"; fi
echo "the unregistered broker goes on for at least 40 s longer"
