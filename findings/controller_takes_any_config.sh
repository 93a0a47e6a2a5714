#!/bin/sh
# Apache Kafka 4.4.0: `kafka-configs --bootstrap-controller` takes read-only and unknown keys for a controller, prints
# "Completed updating" and exits with 0. --describe then does not show the read-only one.
#
# Expected: a refusal, as a broker refuses the same read-only key ("Cannot update these configs dynamically").
# Seen: no refusal, and no way to see by the same tool what became of the read-only key.
# So: after a change of a controller's config, compare what the controller does, not what the tool printed.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
jars 4.4.0
set -- $(free_ports 2)
voters="controller.quorum.voters=1@127.0.0.1:$1"
properties 1 controller "$1" "$voters"
format 1
start 1 "$1"
properties 2 broker "$2" "$voters"
format 2
start 2 "$2"
configs() { tool org.apache.kafka.tools.ConfigCommand "$@"; }
changed="--alter --entity-type brokers --add-config controller.quorum.fetch.timeout.ms=30000"
broker_refuses() {
    configs --bootstrap-server "127.0.0.1:$2" $changed --entity-name 2
    case $printed in *"Cannot update these configs dynamically"*) ;; *) return 1 ;; esac
}
within 60 broker_refuses "$@" || seen "$printed"
echo "broker 2, read-only key: exit code $code: $(echo "$printed" | grep -m 1 -o 'Cannot update these configs dynamically.*')"
for key in controller.quorum.fetch.timeout.ms no.such.key; do
    configs --bootstrap-controller "127.0.0.1:$1" --alter --entity-type brokers --entity-name 1 --add-config "$key=30000"
    echo "controller 1, $key: exit code $code: $printed"
    [ "$code" = 0 ] || seen "$printed"
    case $printed in *"Completed updating"*) ;; *) seen "$printed" ;; esac
done
configs --bootstrap-controller "127.0.0.1:$1" --describe --entity-type brokers --entity-name 1
echo "$printed"
case $printed in *no.such.key*) ;; *) seen "the unknown key is not shown" ;; esac
case $printed in *controller.quorum.fetch.timeout.ms*) seen "the read-only key is shown" ;; esac
