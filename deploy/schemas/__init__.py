"""Generates the schemas of Kafka's metadata records from the JSON files in Kafka's own jars. Not in the wheel.

`make schemas` (`python -m deploy.schemas.schema_file`) writes `connectors/metadata/schemas/records.json`: every record
and version that any of the Kafka versions listed in `schema_file` knows. The jars are downloaded as for the lab.
"""
