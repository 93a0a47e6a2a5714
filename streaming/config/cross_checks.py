"""Checks between the parts of a configuration: what refers to nothing, and what two clusters must not share.

A name that matches nothing would silence a sink, or leave a maintenance window without effect, without any sign of it.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from connectors.settings import host_port, uri_scheme
from connectors.sinks.sink_config import SinkSection
from rules.evaluate import RULES
from rules.notifications.route import JOB_CLUSTER_ID, Route
from streaming.config.cluster_section import ClusterSection
from streaming.config.root import SHUFFLE_PARTITIONS, Config, matches
from streaming.config.yaml_lines import KeyPath

Mistake: TypeAlias = tuple[KeyPath, str]
"""The path of a value, and what is wrong with it."""


def contradictions(config: Config) -> Iterator[Mistake]:
    """Yields each value that contradicts another one; clusters that options add change none of this."""
    names: set[str] = set()
    for at, section in enumerate(config.clusters):
        if section.name in names:
            yield ("clusters", at, "name"), f"two clusters are named {section.name}: give each its own name"
        names.add(section.name)
    # A pattern that matches no cluster is reported by itself.
    if not config.watched and any(matches(name, config.watch.include) for name in names):
        listed = ", ".join(section.name for section in config.clusters)
        yield ("watch",), f"excludes all clusters ({listed}): correct its include and exclude"
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
    if config.store is None and (config.store_password or config.store_password_file):
        yield ("store",), "is missing, but its password is given: a SQLite file has no password"


def mistakes_between_parts(config: Config) -> Iterator[Mistake]:
    """Yields each value that refers to nothing, and what two clusters must not share."""
    names = [section.name for section in config.clusters]
    yield from _unmatched(("watch", "include"), config.watch.include, names, "cluster")
    yield from _unknown_rules(("rules",), config.rules)
    for at, cluster in enumerate(config.clusters):
        yield from _unknown_rules(("clusters", at, "rules"), cluster.rules)
    yield from _shared_addresses(config.clusters)
    for at, entry in enumerate(config.sinks):
        section = entry.section
        kind = section.kind
        yield from _unmatched(("sinks", at, kind, "clusters"), section.clusters, names, "cluster")
        yield from _sink_rules(("sinks", at, kind, "rules"), section)
    for at, window in enumerate(config.maintenance):
        # The job's own alerts name the cluster `kraftwatch`.
        known = [*names, JOB_CLUSTER_ID]
        yield from _unmatched(("maintenance", at, "clusters"), window.clusters, known, "cluster")
        yield from _unmatched(("maintenance", at, "rules"), window.rules, list(RULES), "rule")


def _unmatched(place: KeyPath, patterns: Sequence[str], known: Sequence[str], what: str) -> Iterator[Mistake]:
    for at, pattern in enumerate(patterns):
        problem = unmatched(pattern, known, what)
        if problem is not None:
            yield (*place, at), problem


def _unknown_rules(place: KeyPath, rules: Iterable[str]) -> Iterator[Mistake]:
    for rule in rules:
        if rule not in RULES:
            # Exactly one rule: a pattern such as `voter-*` is no rule's id.
            problem = unmatched(rule.replace("*", ""), RULES, "rule") or f"'{rule}' is a pattern: name each rule"
            yield (*place, rule), problem


def _sink_rules(place: KeyPath, section: SinkSection) -> Iterator[Mistake]:
    mistakes = [
        *_unmatched((*place, "include"), section.rules.include, list(RULES), "rule"),
        *_unmatched((*place, "exclude"), section.rules.exclude, list(RULES), "rule"),
    ]
    route = Route(rules=section.rules.include, excluded_rules=section.rules.exclude)
    if not mistakes and not any(map(route.includes_rule, RULES)):
        mistakes = [(place, "exclude leaves no rule of include: the sink would get no alert")]
    yield from mistakes


def _shared_addresses(clusters: Sequence[ClusterSection]) -> Iterator[Mistake]:
    owners: dict[tuple[str, str | None, int, str | None], str] = {}
    for at, section in enumerate(clusters):
        for number, address in enumerate(section.bootstrap):
            host, port = host_port(address)
            # One name may be two machines, because each cluster may resolve it in its own way; and a TLS proxy at one
            # address may serve several clusters by their names.
            own = section.resolve.get(host)
            file = None if section.hosts_file is None or own is not None else str(section.hosts_file)
            owner = owners.setdefault((host.lower(), own, port, file), section.name)
            if owner != section.name:
                yield (
                    ("clusters", at, "bootstrap", number),
                    f"{address} is also in the bootstrap of cluster {owner}: give each cluster its own controllers",
                )


def unmatched(pattern: str, known: Collection[str], what: str) -> str | None:
    """Returns why a pattern has no effect, in one sentence with the nearest known name; None if it matches a name."""
    if any(fnmatchcase(name, pattern) for name in known):
        return None
    literal = pattern.lower().strip("*?")
    near = difflib.get_close_matches(literal, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
    return f"'{pattern}' matches no {what}; {hint}"
