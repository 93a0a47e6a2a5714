"""The nodes and the finalized features do not go together, or an upgrade was left half done.

What it means
    Each controller and broker registers which levels of each feature it supports; the log sets the level in force
    (KIP-584). Four things are told:

    - Warning: nodes of different versions are registered side by side long after an upgrade began: a node was
      forgotten, the upgrade stopped halfway, or the registration of a node that is gone was left behind. A rolling
      upgrade is none of it: it is over in hours.
    - Warning: a registered node does not support a level that is in force: it cannot take part any more.
    - Info: every node has supported a higher metadata.version than is in force for a week: what came with the upgrade
      is not in use, and the next upgrade may need it.
    - Info: kraft.version is 0 where it could be 1: voters cannot be changed, nor a disk replaced, by a command.

Evidence
    Who supports what, and since when by the log's own time; the levels in force; which of those left behind do not
    run. Controllers register from metadata.version 3.7 on: below it only brokers are compared.

What to do
    1. Upgrade the nodes that were left behind, one after the other.
    2. Take away the registration of a node that is gone: it hinders the next level like one that runs.
    3. When the new version has proven itself, finalize it by the command that the alert brings.

What not to do
    Do not finalize while you may still want to go back: metadata.version has no safe way down. Do not do it to mend
    anything else.

Thresholds
    hold (4 h, by the log's own time where it tells) and clear (10 s): CockroachDB's rule on mixed versions waits as
    long. finalize (168 h): how long all nodes must have supported more before that is told. seen_age (10 s): the log
    must have answered this recently.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import counted, listed, spelled
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.registration import BrokerRegistration, ControllerRegistration, FeatureRange
from rules.remedy_commands import describe_features, upgrade_feature

ID = "version-drift"
METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
FINALIZE = Threshold(
    name="finalize",
    default=604_800.0,
    unit="s",
    meaning="how long, by the log's own time, every node must have supported a higher level than is in force before "
    "that is told. A week is what one may want to watch a new version before there is no way back",
)
_UPGRADES_KRAFT = 26
"""The first metadata.version of Kafka 4.1: earlier ones know kraft.version 1 and cannot be upgraded to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A registered node and what it supports."""

    role: str
    id: NodeId
    features: tuple[FeatureRange, ...]
    since_timestamp_ms: Millis | None
    runs: bool
    """False of a fenced broker, and of a controller that is neither a voter nor an observer."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}"

    def range(self, feature: str) -> FeatureRange:
        """Of a feature that it does not register it supports level 0 alone, as Kafka takes it."""
        none = FeatureRange(name=feature, lowest=0, highest=0)
        return next((each for each in self.features if each.name == feature), none)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a node that supports too little, one about the mixture, one a feature that is left behind."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    registered = [*_named("controller", quorum.controllers.values()), *_named("broker", quorum.brokers.values())]
    untold = [f"{role} {one.id}" for role, one in registered if one.features is None]
    if untold:
        # A state of before this was kept: a registration is repeated at each start of its node.
        why = f"what {listed(untold, 4)} supports is not known until it registers again"
        yield UnknownResult(rule=ID, subject=None, why=why)
        return
    nodes = [
        _Node(
            role=role,
            id=one.id,
            features=one.features or (),
            since_timestamp_ms=one.features_since_timestamp_ms,
            runs=_runs(quorum, one),
        )
        for role, one in registered
    ]
    levels = _levels(quorum)
    for node in nodes:
        wrong = [(each, level) for each, level in levels.items() if not _supports(node, each, level)]
        if wrong:
            yield _unsupporting(quorum, node, wrong)
    if _mixed(nodes):
        yield _mixture(quorum, nodes)
    else:
        yield from _left_behind(quorum, nodes, levels, thresholds)


def _named(
    role: str, registrations: Iterable[ControllerRegistration | BrokerRegistration]
) -> list[tuple[str, ControllerRegistration | BrokerRegistration]]:
    return [(role, one) for one in sorted(registrations, key=lambda one: one.id)]


def _runs(quorum: Quorum, one: ControllerRegistration | BrokerRegistration) -> bool:
    if isinstance(one, BrokerRegistration):
        return one.alive
    poll = quorum.poll
    return poll is None or one.id in {row.key.id for row in (*poll.voters, *poll.observers)}


def _levels(quorum: Quorum) -> dict[str, int]:
    """Every feature's level that is in force, but for those at 0, which any node supports."""
    kraft = {KRAFT_VERSION: quorum.kraft_version} if quorum.kraft_version else {}
    metadata = {METADATA_VERSION: quorum.metadata_version} if quorum.metadata_version else {}
    return dict(sorted({**quorum.features, **metadata, **kraft}.items()))


def _supports(node: _Node, feature: str, level: int) -> bool:
    supported = node.range(feature)
    return supported.lowest <= level <= supported.highest


def _mixed(nodes: list[_Node]) -> bool:
    """Whether nodes of one role support different things, or the roles different metadata.versions."""
    alike = all(len({node.features for node in nodes if node.role == role}) <= 1 for role in ("controller", "broker"))
    return not alike or len({node.range(METADATA_VERSION) for node in nodes}) > 1


def _unsupporting(quorum: Quorum, node: _Node, wrong: list[tuple[str, int]]) -> Finding:
    what = listed(f"{feature} {level}, it knows {node.range(feature)}" for feature, level in wrong)
    return Finding(
        rule=ID,
        subject=node.name,
        severity=Severity.WARNING,
        summary=f"{node.name} does not support what is in force: {what}",
        evidence={
            "node": node.name,
            "in_force": {**dict(wrong)},
            "supports": [str(each) for each in node.features],
        },
        remedy=(
            f"# Upgrade {node.name}: it cannot take part with the version that it registered last",
            "# If it is gone for good, take its registration away: a broker's with kafka-cluster.sh unregister, a "
            "controller's from Kafka 4.4 on",
            describe_features(quorum),
        ),
    )


def _mixture(quorum: Quorum, nodes: list[_Node]) -> Finding:
    newest = max(node.range(METADATA_VERSION).highest for node in nodes)
    behind = [node for node in nodes if node.range(METADATA_VERSION).highest < newest]
    ahead = [node for node in nodes if node not in behind]
    since = max(_first(ahead), _first(behind)) if behind else _first(nodes)
    age = Millis(max(0, (quorum.newest_timestamp_ms or since) - since))
    if behind:
        levels = sorted({node.range(METADATA_VERSION).highest for node in behind})
        what = (
            f"{listed((node.name for node in behind), 4)} knows metadata.version up to {listed(levels)}, "
            f"{counted(len(ahead), 'other')} up to {newest}"
        )
    else:
        what = "all know the same metadata.version and differ in other features"
    return Finding(
        rule=ID,
        subject="nodes",
        severity=Severity.WARNING,
        summary=f"nodes of different versions are registered side by side for {spelled(age)}: {what}",
        evidence={
            "supported": _groups(nodes),
            "behind_and_not_running": [node.name for node in behind if not node.runs],
            "metadata_version": quorum.metadata_version,
            "for": spelled(age),
        },
        remedy=(
            *_catch_up(behind),
            "# See what the active controller supports and what is in force",
            describe_features(quorum),
        ),
        standing_ms=age,
    )


def _catch_up(behind: list[_Node]) -> Iterable[str]:
    running = [node.name for node in behind if node.runs]
    gone = [node.name for node in behind if not node.runs]
    if running:
        yield f"# Upgrade {listed(running, 8)} to the version of the others, one after the other"
    if gone:
        yield (
            f"# Not running: {listed(gone, 8)}. Start it in the version of the others, or if it is gone for good take "
            "its registration away: a broker's with kafka-cluster.sh unregister once its partitions have moved, a "
            "controller's from Kafka 4.4 on"
        )
    if not behind:
        yield "# Bring all nodes to one version and one unstable.feature.versions.enable, one after the other"


def _first(nodes: list[_Node]) -> Millis:
    """When the first of them told what it supports."""
    return min(node.since_timestamp_ms or Millis(0) for node in nodes)


def _groups(nodes: list[_Node]) -> dict[str, Plain]:
    """Who supports what."""
    groups: dict[str, list[Plain]] = {}
    for node in nodes:
        groups.setdefault(", ".join(map(str, node.features)) or "nothing", []).append(node.name)
    return {**groups}


def _left_behind(
    quorum: Quorum, nodes: list[_Node], levels: dict[str, int], thresholds: Thresholds
) -> Iterable[Finding]:
    newest = quorum.newest_timestamp_ms
    if not nodes or newest is None:
        return
    age = Millis(max(0, newest - max(node.since_timestamp_ms or Millis(0) for node in nodes)))
    if age < thresholds.ms(FINALIZE.name):
        return
    highest = min(node.range(METADATA_VERSION).highest for node in nodes)
    in_force = levels.get(METADATA_VERSION)
    if in_force is not None and highest > in_force:
        yield _finalizable(quorum, nodes, METADATA_VERSION, in_force, highest, age)
    kraft = min(node.range(KRAFT_VERSION).highest for node in nodes)
    # Nodes that are not mixed know one range of metadata.version, and below 3.7 no controller tells its own.
    able = highest >= _UPGRADES_KRAFT and any(node.role == "controller" for node in nodes)
    if able and quorum.kraft_version == 0 and kraft > 0:
        yield _finalizable(quorum, nodes, KRAFT_VERSION, 0, kraft, age)


def _finalizable(quorum: Quorum, nodes: list[_Node], feature: str, in_force: int, highest: int, age: Millis) -> Finding:
    warning = (
        "# When the version has proven itself, finalize it: there is no safe way back"
        if feature == METADATA_VERSION
        else "# Make the quorum dynamic, if you want that: controllers are then added and disks replaced by "
        "add-controller and remove-controller, and there is no way back"
    )
    after = (
        ()
        if feature == METADATA_VERSION
        else ("# Then give every node controller.quorum.bootstrap.servers in place of controller.quorum.voters",)
    )
    return Finding(
        rule=ID,
        subject=feature,
        severity=Severity.INFO,
        summary=f"{feature} {in_force} is in force, and every node supports {highest} for {spelled(age)}",
        evidence={
            "feature": feature,
            "in_force": in_force,
            "every_node_supports": highest,
            "for": spelled(age),
            "controllers_registered": sum(node.role == "controller" for node in nodes),
            "brokers_registered": sum(node.role == "broker" for node in nodes),
            "levels_in_force": dict(_levels(quorum)),
        },
        remedy=(describe_features(quorum), warning, upgrade_feature(quorum, feature, highest), *after),
        standing_ms=age,
    )


RULE = Rule(
    id=ID,
    title="Nodes and finalized features do not go together",
    text=__doc__ or "",
    thresholds=(hold(14_400.0), clear(), FINALIZE, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "committed-metadata-lost"),
)
