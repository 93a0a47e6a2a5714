"""Generates the schemas of Kafka's metadata records by reflection on Kafka's own jars.

`make schemas` (`python -m deploy.schemas.reflection`) writes `connectors/metadata/schemas/records.json`: every record
and version that any of the Kafka versions listed in `reflection` knows. The jars are downloaded as for the lab.
"""
