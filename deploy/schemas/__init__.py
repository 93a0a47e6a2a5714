"""How Kafka's metadata records are laid out, read by reflection from Kafka's own jars.

`make schemas` (`python -m deploy.schemas`) writes `connectors/metadata/schemas/records.json`: every record and
version that any of the Kafkas named in `reflection` knows. Their jars are fetched as the lab fetches them.
"""
