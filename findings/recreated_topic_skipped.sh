#!/bin/sh
# kafka-python 3.0.12 and Apache Kafka 4.4.0: a consumer that has read a topic to its end, while the topic is deleted and
# created again with fewer records, skips the records of the new topic, although auto_offset_reset is "earliest".
# confluent-kafka 2.16.0 (librdkafka), with the same settings, reads them.
#
# Expected: the position lies beyond the end of the new topic, so both clients reset it as auto.offset.reset says.
# Seen: kafka-python compares leader epochs (KIP-320), which begin again at 0 in the new topic, takes the shorter log for
# a truncated one, and goes on at its end without a warning. The records that were written before that are never read.
# So: who follows a topic that people may create again compares its topic id, and begins again when it changes.
set -eu
. "$(dirname "$0")/lib/kafka.sh"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet kafka-python==3.0.12 confluent-kafka==2.16.0
jars 4.4.0
set -- $(free_ports 2)
properties 1 broker,controller 0 "controller.quorum.voters=1@127.0.0.1:$2" \
    "listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2"
format 1
start 1 "$1"
cat > "$folder/shown.py" <<'PYTHON'
import sys
import time

import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = sys.argv[1]
admin = AdminClient({"bootstrap.servers": SERVER})


def created(topic):
    """Creates the topic; tries again while the deletion of the former one is not over."""
    for _ in range(100):
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            return
        except confluent_kafka.KafkaException:
            time.sleep(0.3)
    raise SystemExit(f"{topic} was not created")


def written(topic, name, count):
    producer = confluent_kafka.Producer({"bootstrap.servers": SERVER, "acks": "all"})
    for each in range(count):
        producer.produce(topic, f"{name}{each}", partition=0)
    assert producer.flush(30) == 0


def records_of(poll, wanted, seconds):
    """Returns what is read until there are as many records, or the time is over."""
    found, end = [], time.monotonic() + seconds
    while len(found) < wanted and time.monotonic() < end:
        found += poll()
    return found


def shown(topic, poll):
    created(topic)
    written(topic, "former", 10)
    before = records_of(poll, 10, 30)
    admin.delete_topics([topic])[topic].result()
    created(topic)
    written(topic, "new", 4)
    return before, records_of(poll, 4, 40)


def of_kafka_python(topic):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=SERVER, group_id=None, auto_offset_reset="earliest", metadata_max_age_ms=1000
    )
    consumer.assign([kafka.TopicPartition(topic, 0)])
    poll = lambda: [record.value.decode() for each in consumer.poll(500).values() for record in each]
    try:
        return shown(topic, poll)
    finally:
        consumer.close()


def of_librdkafka(topic):
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": SERVER, "group.id": "none", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 1000,
    })
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    poll = lambda: [each.value().decode() for each in consumer.consume(100, 0.5) if each.error() is None]
    try:
        return shown(topic, poll)
    finally:
        consumer.close()


print("kafka-python", kafka.__version__, "confluent-kafka", confluent_kafka.__version__)
for name, read in (("kafka-python", of_kafka_python), ("confluent-kafka", of_librdkafka)):
    before, after = read(f"of-{name}")
    print(f"{name}: {len(before)} records of the former topic; of the new one {after}")
    wanted = [] if name == "kafka-python" else [f"new{each}" for each in range(4)]
    if len(before) != 10 or after != wanted:
        raise SystemExit(f"{name}: expected 10 records of the former topic, and then {wanted}")
PYTHON
"$folder/venv/bin/python" "$folder/shown.py" "127.0.0.1:$1"
