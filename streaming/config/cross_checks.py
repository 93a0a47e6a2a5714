"""Checks between the parts of a configuration: what refers to nothing, and what two clusters must not share.

A name that matches nothing would silence a sink, or leave a maintenance window without effect, without any sign of it.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from connectors.settings import host_port
from connectors.sinks.sink_config import SinkSection
from rules.evaluate import RULES
from rules.notifications.route import JOB_CLUSTER_ID, Route
from streaming.config.cluster_section import ClusterSection
from streaming.config.root import Config
from streaming.config.yaml_lines import KeyPath

Mistake: TypeAlias = tuple[KeyPath, str]
"""The path of a value, and what is wrong with it."""


def mistakes_between_parts(config: Config) -> Iterator[Mistake]:
    """Yields each value that contradicts another part of the configuration, or refers to nothing."""
    names = [section.name for section in config.clusters]
    yield from _unmatched(("watch", "include"), config.watch.include, names, "cluster")
    yield from _unknown_rules(("rules",), config.rules)
    for at, cluster in enumerate(config.clusters):
        yield from _unknown_rules(("clusters", at, "rules"), cluster.rules)
    yield from _shared_addresses(config.clusters)
    yield from _shared_ids(config.clusters)
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


def _shared_ids(clusters: Sequence[ClusterSection]) -> Iterator[Mistake]:
    owners: dict[str, str] = {}
    for at, section in enumerate(clusters):
        if section.cluster_id is not None:
            owner = owners.setdefault(section.cluster_id, section.name)
            if owner != section.name:
                yield (
                    ("clusters", at, "cluster_id"),
                    f"cluster {owner} has the same id: give each cluster its own",
                )


_SHOWN = 12
"""Known names that an error lists."""


def unmatched(pattern: str, known: Collection[str], what: str) -> str | None:
    """Returns why a pattern has no effect, in one sentence with the nearest known name; None if it matches a name."""
    if any(fnmatchcase(name, pattern) for name in known):
        return None
    literal = pattern.lower().strip("*?")
    near = difflib.get_close_matches(literal, known, n=1, cutoff=0.5)
    names = sorted(known)
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"'{pattern}' matches no {what}; " + (f"did you mean '{near[0]}'?" if near else f"known: {listed}")
