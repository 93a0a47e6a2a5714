"""How Kafka's metadata records are laid out, read by reflection from Kafka's own jars.

`python -m deploy.schemas [--kafka VERSION | --jars DIR]` writes `connectors/metadata/schemas/VERSION.json`,
VERSION being what the jars say they are; without --jars they are fetched as the lab fetches them.
"""
