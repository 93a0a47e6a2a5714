"""How Kafka's metadata records are laid out, read by reflection from Kafka's own jars.

`python -m deploy.schemas --jars DIR` writes `connectors/metadata/schemas/VERSION.json`, VERSION being what the
jars say they are. DIR holds the jars of `org.apache.kafka:kafka_2.13` and what it depends on.
"""
