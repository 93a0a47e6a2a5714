"""Checks between the clusters of a configuration: names and addresses that they must not share, and patterns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError

from connectors.errors import UsageError
from connectors.settings.sections import host_port, unmatched
from rules.model.identifiers import NOT, selects
from streaming.config.cluster_section import ClusterSection
from streaming.config.clusters import ClustersConfig
from streaming.config.sentences import KeyPath, placed, sentences

Mistake: TypeAlias = tuple[KeyPath, str]
"""The path of a value, and what is wrong with it."""


def checked_clusters(data: Mapping[str, Any], source: str) -> ClustersConfig:
    """Returns clusters from plain data; `source` is named in the error.

    Raises:
        UsageError: one sentence for the first invalid value.
    """
    try:
        config = ClustersConfig.model_validate(data)
    except ValidationError as problem:
        raise UsageError(f"{source}: {sentences(problem, None)[0]}") from None
    for path, sentence in (*contradictions_of_clusters(config), *mistakes_of_clusters(config)):
        raise UsageError(f"{source}: {placed(None, path)}: {sentence}")
    return config


def contradictions_of_clusters(config: ClustersConfig) -> Iterator[Mistake]:
    """Yields two clusters of one name."""
    names: set[str] = set()
    for at, section in enumerate(config.clusters):
        if section.name in names:
            yield ("clusters", at, "name"), f"two clusters are named {section.name}: give each its own name"
        names.add(section.name)


def mistakes_of_clusters(config: ClustersConfig) -> Iterator[Mistake]:
    """Yields each value that refers to no cluster or rule, and each address that two clusters share."""
    names = [section.name for section in config.clusters]
    yield from mistakes_of_selection(("watch",), config.watch, names, "cluster")
    yield from _unknown_rules(("rules",), config.rules)
    for at, cluster in enumerate(config.clusters):
        yield from _unknown_rules(("clusters", at, "rules"), cluster.rules)
    yield from _shared_addresses(config.clusters)


def mistakes_of_selection(
    place: KeyPath, patterns: Sequence[str], known: Sequence[str], what: str
) -> Iterator[Mistake]:
    """Yields each pattern of `selects` that matches nothing known, else that together they select nothing."""
    mistakes = [*all_unmatched(place, [pattern.removeprefix(NOT) for pattern in patterns], known, what)]
    if not mistakes and not any(selects(patterns, name) for name in known):
        mistakes = [(place, f"its patterns with {NOT} leave no {what}")]
    yield from mistakes


def all_unmatched(place: KeyPath, patterns: Sequence[str], known: Sequence[str], what: str) -> Iterator[Mistake]:
    """Yields each pattern that matches nothing known."""
    for at, pattern in enumerate(patterns):
        problem = unmatched(pattern, known, what)
        if problem is not None:
            yield (*place, at), problem


def _unknown_rules(place: KeyPath, rules: Iterable[str]) -> Iterator[Mistake]:
    for rule in rules:
        # Imported here: most configurations name no rule, and all rules take as long to load as the configuration.
        from rules.evaluate import ALL_RULES

        if rule not in ALL_RULES:
            # Exactly one rule: a pattern such as `voter-*` is no rule's id.
            problem = unmatched(rule.replace("*", ""), ALL_RULES, "rule") or f"'{rule}' is a pattern: name each rule"
            yield (*place, rule), problem


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
