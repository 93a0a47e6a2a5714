"""Checks between the parts of a configuration: what refers to nothing, and what two clusters must not share.

A name that matches nothing would silence a sink, or leave a maintenance window without effect, without any sign of it.
"""

from collections.abc import Iterator

from connectors.settings.sections import uri_scheme
from rules.evaluate import ALL_RULES
from rules.model.job_state import JOB_CLUSTER_ID
from streaming.config.clusters_checks import (
    Mistake,
    all_unmatched,
    contradictions_of_clusters,
    mistakes_of_clusters,
    mistakes_of_selection,
)
from streaming.config.root import SHUFFLE_PARTITIONS, Config


def contradictions(config: Config) -> Iterator[Mistake]:
    """Yields each value that contradicts another one; clusters that options add change none of this."""
    yield from contradictions_of_clusters(config)
    if SHUFFLE_PARTITIONS in config.spark:
        yield ("spark",), f"{SHUFFLE_PARTITIONS} is the number of partitions: set pipeline.partitions instead"
    if config.listen_keyfile is not None and config.listen_certfile is None:
        yield ("listen_keyfile",), "is given without listen_certfile: give both, or only listen_certfile"
    yield from _contradictions_of_places(config)


def _contradictions_of_places(config: Config) -> Iterator[Mistake]:
    if config.source == "kafka":
        if config.relay is None:
            yield ("source",), "kafka reads the relay's topic: add relay with its bootstrap and topic"
        elif config.relay.sasl_mechanism == "OAUTHBEARER":
            sentence = "source: kafka does not support OAUTHBEARER: use SCRAM, PLAIN or a certificate"
            yield ("relay", "sasl_mechanism"), sentence
        elif config.relay.ssl_crlfile is not None:
            sentence = "source: kafka does not support ssl_crlfile: Kafka's Java client has no such setting"
            yield ("relay", "ssl_crlfile"), sentence
    if config.work_dir is None and uri_scheme(config.checkpoint) is not None:
        sentence = f"{config.checkpoint} is for Spark's files alone: set work_dir to a folder of this machine as well"
        yield ("checkpoint",), sentence
    if config.work_dir is not None and config.source != "kafka":
        sentence = "needs source: kafka, because a gatherer's observations are in the same folder as Spark's files"
        yield ("work_dir",), f"{sentence}: add source and relay, or give a folder as checkpoint, alone"
    if config.store is None and config.store_password is not None:
        yield ("store",), "is missing, but its password is given: a SQLite file has no password"


def mistakes_between_parts(config: Config) -> Iterator[Mistake]:
    """Yields each value that refers to nothing, and what two clusters must not share."""
    names = [section.name for section in config.clusters]
    yield from mistakes_of_clusters(config)
    for at, entry in enumerate(config.sinks):
        route, place = entry.section.route, ("sinks", at, entry.section.kind)
        yield from mistakes_of_selection((*place, "clusters"), route.clusters, names, "cluster")
        yield from mistakes_of_selection((*place, "rules"), route.rules, list(ALL_RULES), "rule")
    for at, window in enumerate(config.maintenance):
        # The job's own alerts name the cluster `kraftwatch`.
        known = [*names, JOB_CLUSTER_ID]
        yield from all_unmatched(("maintenance", at, "clusters"), window.clusters, known, "cluster")
        yield from all_unmatched(("maintenance", at, "rules"), window.rules, list(ALL_RULES), "rule")
