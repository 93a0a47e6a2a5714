"""The nodes' versions and the finalized features do not match, or an upgrade is unfinished.

What it means
    Each controller and broker registers which levels of each feature it supports. The metadata log sets the finalized
    level (KIP-584). The rule reports six conditions:

    - Warning: no record of the log sets metadata.version, which formatting a disk does (`kafka-storage.sh format`) and
      an upgrade of Kafka never undoes. Kafka below 4.0 works at its lowest level (3.0-IV1) and says "No
      metadata.version feature level record was found in the log": features of later versions are off. Kafka 4.0 and
      later refuse it: the active controller fails with "Unknown metadata version". This fires after a minute.
    - Warning: nodes of different versions are registered long after an upgrade began. A node was forgotten, the upgrade
      stopped halfway, or the registration of a node that no longer exists was left behind.
    - Warning: a registered node does not support a finalized level: it can no longer take part.
    - Info: for a week every node has supported a higher metadata.version than the finalized one. New features of the
      upgrade are not in use, and the next upgrade may need the higher level.
    - Info: kraft.version is 0 and could be 1. Until then no command can change voters or replace a voter's disk.
    - Info: kraft.version went from 0 to 1 together with metadata.version, because `kafka-features.sh upgrade
      --release-version` raises both (KAFKA-21426). This fires at once, for an hour.

    Controllers register from metadata.version 3.7 on: below it only brokers are compared.

What to do
    1. Upgrade the outdated nodes, one after the other.
    2. Unregister a node that no longer exists: its registration blocks the next level as a running node would. The
       alert has the commands. Kafka unregisters a broker at every level, a controller only from metadata.version 33
       (Kafka 4.4) on; `ghost-registration` says how to get there.
    3. When the new version has proven stable, finalize it with the command in the alert.
    4. Without metadata.version, finalize one: before an upgrade to Kafka 4.0, and with Kafka 3.9 if that has failed.

What not to do
    Do not finalize while you may still want to downgrade. Kafka lowers metadata.version only where no record changed in
    between: among 23 to 29 (Kafka 4.0 to 4.2) and from 31 to 30, not from 30 (4.3), 32 or 33 (4.4). The alert says
    which. Do not finalize in order to fix another problem.
"""

from collections.abc import Iterable

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.registered_node import METADATA_VERSION, RegisteredNode
from rules.finding import HOLD, Finding, Plain, RuleResult, Severity, Threshold, Thresholds, hold, keep_firing_for
from rules.formatting import and_join, plural, utc_text
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import FEATURES_TOOL, describe_features, upgrade_feature
from rules.remedies.step import may_restart, starts
from rules.remedies.unregister import unregister_steps
from rules.rule import Rule

KRAFT_VERSION = "kraft.version"
FINALIZE = Threshold(
    name="finalize",
    default=604_800.0,
    meaning="how long, by the timestamps in the log, every node must have supported a higher level than the finalized "
    "one before the alert fires. A week leaves time to observe a new version before a downgrade becomes impossible",
)
KEEP_FIRING_FOR = keep_firing_for(3_600.0, "a release upgrade that made a static quorum dynamic")
_BY_RELEASE = Subject("release upgrade")
_BOOTSTRAP_SERVERS = "# Replace controller.quorum.voters with controller.quorum.bootstrap.servers on every node"
_MOST_REMOVED = 8
_FEATURE_RECORD = "FeatureLevelRecord"
_LOWEST_BEFORE_4_0 = 1
"""The lowest metadata.version of Kafka 3 is 3.0-IV1, that of Kafka 4 is 3.3-IV3."""
_NO_VERSION_HOLD_MS = Millis(60_000)
"""The first records of a new log set it within seconds."""
_UPGRADES_KRAFT = 26
"""The first metadata.version of Kafka 4.1: earlier versions support kraft.version 1 and cannot upgrade to it."""

_CHANGED_RECORDS = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""The levels at which records changed (MetadataVersion.didMetadataChange): Kafka refuses to go below such a level."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns findings on unsupported levels, on mixed versions and on levels that can be finalized."""
    quorum = facts.quorum
    nodes = facts.registered_nodes
    levels = _levels(quorum)
    if quorum.log_complete and not quorum.metadata_version and not _may_be_set(quorum):
        yield _no_metadata_version(facts, nodes, thresholds)
    yield from _dynamic_by_release(facts, thresholds)
    for node in nodes:
        wrong = [(each, level) for each, level in levels.items() if not _supports(node, each, level)]
        if wrong:
            yield _unsupported_level(facts, node, wrong)
    if _mixed(nodes):
        yield _mixed_versions(facts, nodes)
    else:
        yield from _finalizable_levels(facts, nodes, levels, thresholds)


def _levels(quorum: Quorum) -> dict[str, int]:
    kraft = {KRAFT_VERSION: quorum.kraft_version} if quorum.kraft_version else {}
    metadata = {METADATA_VERSION: quorum.metadata_version} if quorum.metadata_version else {}
    return dict(sorted({**quorum.features, **metadata, **kraft}.items()))


def _may_be_set(quorum: Quorum) -> bool:
    """Returns whether a record that was not applied may set it: of an unknown version, or in a transaction."""
    unknown = any(record.kafka_class in (None, _FEATURE_RECORD) for record in quorum.unknown_records)
    return unknown or quorum.open_transaction is not None


def _no_metadata_version(facts: Facts, nodes: list[RegisteredNode], thresholds: Thresholds) -> Finding:
    ranges = [node.range(METADATA_VERSION) for node in nodes]
    lowest, highest = (
        max((range_.lowest for range_ in ranges), default=0),
        min((range_.highest for range_ in ranges), default=0),
    )
    refuse = [node.name for node, feature in zip(nodes, ranges, strict=True) if feature.lowest > _LOWEST_BEFORE_4_0]
    works = (
        f"Kafka 4.0 and later refuse it ({and_join(refuse, 4)}): the active controller fails"
        if refuse
        else "the controllers work at the lowest level, 3.0-IV1, and an upgrade to Kafka 4.0 would fail"
    )
    finalize = (
        (upgrade_feature(facts, METADATA_VERSION, highest),) if 0 < highest >= lowest else (describe_features(facts),)
    )
    return Finding(
        subject=Subject(METADATA_VERSION),
        severity=Severity.WARNING,
        summary=f"The metadata log sets no metadata.version: {works}.",
        evidence={
            "last_committed_offset": facts.quorum.last_offset,
            "finalized_levels": {**facts.quorum.features},
            "nodes_by_supported_levels": _groups(nodes),
        },
        remedy=(
            "# Find out how the controllers' disks were formatted: kafka-storage.sh format writes metadata.version, "
            "and a snapshot that was damaged or made by another tool may lack it",
            "# If the controllers fail with it, run them with Kafka 3.9, which reads such a log, until a level is "
            "finalized",
            "# Finalize the newest level that all nodes support",
            *finalize,
        ),
        hold_ms=min(_NO_VERSION_HOLD_MS, thresholds.ms(HOLD)),
    )


def _supports(node: RegisteredNode, feature: str, level: int) -> bool:
    supported = node.range(feature)
    return supported.lowest <= level <= supported.highest


def _mixed(nodes: list[RegisteredNode]) -> bool:
    """Returns whether nodes of one role support different levels, or the roles different metadata.versions."""
    alike = all(len({node.features for node in nodes if node.role == role}) <= 1 for role in ("controller", "broker"))
    return not alike or len({node.range(METADATA_VERSION) for node in nodes}) > 1


def _unsupported_level(facts: Facts, node: RegisteredNode, wrong: list[tuple[str, int]]) -> Finding:
    what = and_join(f"{feature} {level} (it supports {node.range(feature)})" for feature, level in wrong)
    return Finding(
        subject=node.subject,
        severity=Severity.WARNING,
        summary=f"{node.name.capitalize()} does not support a finalized feature level: {what}.",
        evidence={
            "node": node.name,
            "finalized_levels_not_supported": {**dict(wrong)},
            "supported_levels": [str(feature) for feature in node.features],
        },
        remedy=(
            *_upgrade_or_remove(facts, node),
            "# Check the levels that the active controller supports and the finalized levels",
            describe_features(facts),
        ),
        starts=(node.registration.id,),
    )


def _upgrade_or_remove(facts: Facts, node: RegisteredNode) -> Iterable[str]:
    if node.left_over:
        yield f"# Remove its registration: node {node.registration.id} runs as a controller only"
        yield from unregister_steps(facts, [node])
        return
    why = "it cannot take part with the version that it registered last"
    if node.running:
        yield may_restart(f"# Upgrade {node.name}: {why}", node.registration.id)
    else:
        yield starts(f"# Start {node.name} (not running) with a newer version: {why}", node.registration.id)
    yield from _if_gone(facts, [] if node.running else [node])


def _mixed_versions(facts: Facts, nodes: list[RegisteredNode]) -> Finding:
    newest = max(node.range(METADATA_VERSION).highest for node in nodes)
    behind = [node for node in nodes if node.range(METADATA_VERSION).highest < newest]
    ahead = [node for node in nodes if node.range(METADATA_VERSION).highest == newest]
    since = max(min(node.since_ms for node in group) for group in (ahead, behind)) if behind else _differ_since(nodes)
    age = Millis(max(0, (facts.quorum.newest_timestamp_ms or since) - since))
    if behind:
        levels = sorted({node.range(METADATA_VERSION).highest for node in behind})
        what = (
            f"{and_join((node.name for node in behind), 4)} support{'s' * (len(behind) == 1)} metadata.version "
            f"up to {and_join(levels)}, "
            f"{plural(len(ahead), 'other node')} up to {newest}"
        )
    else:
        what = "all support the same metadata.version and differ in other features"
    return Finding(
        subject=Subject("nodes"),
        severity=Severity.WARNING,
        summary=f"Nodes of different versions have been registered since {utc_text(since)}: {what}.",
        evidence={
            "nodes_by_supported_levels": _groups(nodes),
            "outdated_and_not_running": [node.name for node in behind if not node.running],
            "metadata_version": facts.quorum.metadata_version,
            "since": utc_text(since),
        },
        remedy=(
            *_catch_up(facts, behind),
            "# Check the levels that the active controller supports and the finalized levels",
            describe_features(facts),
        ),
        starts=tuple(node.registration.id for node in behind or nodes),
        condition_age_ms=age,
    )


def _differ_since(nodes: list[RegisteredNode]) -> Millis:
    """Returns since when nodes of one role differ, while all support the same metadata.version."""
    first: dict[str, dict[object, Millis]] = {}
    for node in nodes:
        of_role = first.setdefault(node.role, {})
        of_role[node.features] = min(node.since_ms, of_role.get(node.features, node.since_ms))
    return min(sorted(of_role.values())[1] for of_role in first.values() if len(of_role) > 1)


def _catch_up(facts: Facts, behind: list[RegisteredNode]) -> Iterable[str]:
    running = [node for node in behind if node.running]
    stopped = [node for node in behind if not node.running and not node.left_over]
    left_over = [node for node in behind if node.left_over]
    if running:
        in_turn = "" if len(running) == 1 else ", one after the other"
        names = and_join((node.name for node in running), 8)
        ids = (node.registration.id for node in running)
        yield may_restart(f"# Upgrade {names} to the version of the others{in_turn}", *ids)
    if stopped:
        names = and_join(node.name for node in stopped)
        ids = (node.registration.id for node in stopped)
        yield starts(f"# Start {names} (not running) with the version of the others", *ids)
        yield from _if_gone(facts, stopped)
    if left_over:
        names = and_join(node.name for node in left_over)
        yield f"# Remove registrations whose nodes run as controllers only: {names}"
        yield from unregister_steps(facts, left_over[:_MOST_REMOVED])
    if not behind:
        yield "# Give all nodes the same version and the same unstable.feature.versions.enable, one after the other"


def _if_gone(facts: Facts, stopped: list[RegisteredNode]) -> Iterable[str]:
    if stopped:
        name = stopped[0].name if len(stopped) == 1 else "one of them"
        yield f"# If {name} no longer exists, remove its registration with the following steps"
        yield from unregister_steps(facts, stopped[:_MOST_REMOVED])


def _groups(nodes: list[RegisteredNode]) -> dict[str, Plain]:
    groups: dict[str, list[Plain]] = {}
    for node in nodes:
        groups.setdefault(", ".join(map(str, node.features)) or "nothing", []).append(node.name)
    return {**groups}


def _finalizable_levels(
    facts: Facts, nodes: list[RegisteredNode], levels: dict[str, int], thresholds: Thresholds
) -> Iterable[Finding]:
    newest = facts.quorum.newest_timestamp_ms
    if not nodes or newest is None:
        return
    age = Millis(max(0, newest - max(node.since_ms for node in nodes)))
    if age < thresholds.ms(FINALIZE.name):
        return
    highest = min(node.range(METADATA_VERSION).highest for node in nodes)
    in_force = levels.get(METADATA_VERSION)
    if in_force is not None and highest > in_force:
        yield _finalizable(facts, nodes, METADATA_VERSION, in_force, highest, age)
    kraft = min(node.range(KRAFT_VERSION).highest for node in nodes)
    # Nodes that are not mixed support one range of metadata.version, and below 3.7 controllers do not register.
    able = highest >= _UPGRADES_KRAFT and any(node.role == "controller" for node in nodes)
    if able and facts.quorum.kraft_version == 0 and kraft > 0:
        yield _finalizable(facts, nodes, KRAFT_VERSION, 0, kraft, age)


def _finalizable(
    facts: Facts, nodes: list[RegisteredNode], feature: str, in_force: int, highest: int, age: Millis
) -> Finding:
    warning = (
        f"# When the version has proven stable, finalize it: {_way_back(in_force, highest)}"
        if feature == METADATA_VERSION
        else "# Make the quorum dynamic if you want to change voters and replace disks with add-controller and "
        "remove-controller: there is no way back"
    )
    since = utc_text((facts.quorum.newest_timestamp_ms or age) - age)
    after = () if feature == METADATA_VERSION else (_BOOTSTRAP_SERVERS,)
    return Finding(
        subject=Subject(feature),
        severity=Severity.INFO,
        summary=f"{feature} was not upgraded: level {in_force} is finalized. Every node has supported "
        f"level {highest} since {since}.",
        evidence={
            "feature": feature,
            "finalized_level": in_force,
            "level_all_nodes_support": highest,
            "since": since,
            "controllers_registered": sum(node.role == "controller" for node in nodes),
            "brokers_registered": sum(node.role == "broker" for node in nodes),
            "finalized_levels": dict(_levels(facts.quorum)),
        },
        remedy=(describe_features(facts), warning, upgrade_feature(facts, feature, highest), *after),
        condition_age_ms=age,
    )


def _dynamic_by_release(facts: Facts, thresholds: Thresholds) -> Iterable[Finding]:
    """Returns a finding if an upgrade of the release made the quorum dynamic recently (KAFKA-21426)."""
    upgrade, newest = facts.quorum.history.kraft_upgrade, facts.quorum.newest_timestamp_ms
    if upgrade is None or upgrade.metadata_version is None or newest is None:
        return
    if newest - upgrade.timestamp_ms > thresholds.ms(KEEP_FIRING_FOR.name):
        return
    yield Finding(
        subject=_BY_RELEASE,
        severity=Severity.INFO,
        summary=f"kraft.version went from 0 to {upgrade.version} by a release upgrade: the quorum is dynamic for good. "
        f"The same request finalized metadata.version {upgrade.metadata_version}, at {utc_text(upgrade.timestamp_ms)}.",
        evidence={
            "kraft_version": upgrade.version,
            "metadata_version": upgrade.metadata_version,
            "offset": upgrade.offset,
            "timestamp_ms": upgrade.timestamp_ms,
        },
        remedy=(
            "# There is no way back: the voters are in the log now, and controller.quorum.voters has no effect",
            _BOOTSTRAP_SERVERS,
            f"# On clusters that are to stay static, raise the level with --feature metadata.version="
            f"{upgrade.metadata_version} instead of --release-version",
            describe_features(facts),
        ),
        # The records are proof: the hold is for nodes that an upgrade has not reached yet.
        hold_ms=Millis(0),
    )


def _way_back(in_force: int, highest: int) -> str:
    # Of levels of a Kafka that was not released yet nothing is known.
    changed = highest > _CHANGED_RECORDS[-1] or any(in_force < level <= highest for level in _CHANGED_RECORDS)
    return "there is no safe way back" if changed else f"{FEATURES_TOOL} downgrade can set level {in_force} again"


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    if subject == _BY_RELEASE:
        return f"kraft.version is {quorum.kraft_version}: the quorum stays dynamic."
    if subject == Subject("nodes"):
        return "All registered nodes support the same feature levels."
    levels = {**quorum.features, "metadata.version": quorum.metadata_version, "kraft.version": quorum.kraft_version}
    level = levels.get(subject.kind)
    if level is not None:
        return f"{subject} is finalized at level {level}."
    return f"{str(subject).capitalize()} supports every finalized feature level, or is no longer registered."


RULE = Rule(
    title="Node versions and finalized features do not match",
    resolved=_resolved,
    hold=hold(14_400.0, "longer than a rolling upgrade, by the timestamps in the log where known"),
    further_thresholds=(FINALIZE, KEEP_FIRING_FOR),
    needs=(Need.CURRENT_LOG,),
)
