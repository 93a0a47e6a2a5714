"""An operation does not end, or leaves a throttle: a reassignment, a controlled shutdown, a migration from ZooKeeper.

What it means
    Kafka records these as states of the cluster that are meant to pass. While one lasts, what follows it has to wait:

    - A reassignment of partitions (KIP-455). It never ends if a new replica's broker is down or was unregistered, if
      the copies are throttled too much, or if the partition has no leader. Until then the data is stored twice.
    - Replication throttles that are left while no partition is reassigned: lists of replicas of a topic, or rates of
      brokers. `kafka-reassign-partitions.sh --verify` and `--cancel` remove them, and give up at a broker that is down.
      A list and a rate together slow down each replica that catches up, also after a failure: warning. One without the
      other slows nothing until the next one is set: info.
    - A controlled shutdown: the active controller lets the broker stop when it leads no partition and every other
      broker that is alive has applied the metadata up to then. After 300 s the broker gives up and stops nevertheless.
    - A migration from ZooKeeper (KIP-866) must have ended before an upgrade to Kafka 4.0, and must not be finalized
      before no broker is registered in ZooKeeper mode. If it was nevertheless, the active controller no longer sends
      metadata to those brokers: a critical alert names them.

What to do
    - Reassignment: start the brokers that the alert names, or cancel it. If all of them run, see whether a replication
      throttle is left from the tool that began it.
    - Throttles: remove them with the commands of the alert. They are sent to a controller, which answers also for a
      broker that is down: through a broker kafka-configs.sh waits for that one and times out.
    - Controlled shutdown: if the alert names brokers that do not keep up with the metadata log, repair those first.
      Otherwise compare `last-applied-record-lag-ms` (`broker-metadata-metrics`) of the brokers: one that fetches and
      does not apply holds it too. End the process of the broker only if it hangs after that.
    - Migration: restart the brokers that are still in ZooKeeper mode in KRaft mode, then the controllers without
      `zookeeper.metadata.migration.enable`. Until then the way back is open.

What not to do
    Do not unregister a broker that holds the only in-sync replica of a partition to end its reassignment. Do not
    upgrade to Kafka 4.0 or later during a migration, and do not finalize one while a broker is in ZooKeeper mode.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rules.answers.now import over
from rules.facts.freshness import fresh_poll
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, first_values, ms_text, numbered, plural, utc_text
from rules.model.history import Reassignment, Throttle, ZkMigration, ZkMigrationState
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import BrokerRegistration
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_features, list_reassignments, remove_throttle
from rules.remedies.start_conditions import start_as_broker
from rules.remedies.step import restarts, starts
from rules.rule import Rule

REASSIGNMENT = Subject("partition reassignment")
THROTTLES = Subject("replication throttles")
MIGRATION = Subject("migration from ZooKeeper")
REASSIGNED_FOR = Threshold(
    name="reassigned_for",
    default=86_400.0,
    meaning="how long one partition may be reassigned: a day is enough to copy terabytes",
)
BLOCKED_FOR = Threshold(
    name="blocked_for",
    default=900.0,
    meaning="the same while one of its new replicas is on a broker that is fenced or not registered, which copies "
    "nothing. A broker that is restarted is back by then",
)
THROTTLED_FOR = Threshold(
    name="throttled_for",
    default=3_600.0,
    meaning="how long replication throttles may be left while no partition is reassigned: they are set before a "
    "reassignment begins, and removed by a person after it has ended",
)
SHUTTING_DOWN_FOR = Threshold(
    name="shutting_down_for",
    default=60.0,
    meaning="how long a controlled shutdown may last: it takes seconds, and a broker gives it up after five minutes",
)
_PREPARED_MS: Final = Millis(86_400_000)
"""How long the controllers may wait for the brokers before a migration from ZooKeeper."""
_MIGRATED_MS: Final = Millis(604_800_000)
"""How long a migration from ZooKeeper may last: a week leaves time to observe it before the way back closes."""
_STATE_LIMITS = {ZkMigrationState.PRE_MIGRATION: _PREPARED_MS, ZkMigrationState.MIGRATION: _MIGRATED_MS}
_MOST_NAMED = 8


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for the reassignments, or else for throttles that are left, one for each controlled shutdown,
    and one for a migration."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    if quorum.reassignments:
        yield from _reassignments(facts, newest, thresholds)
    elif quorum.throttles:
        yield _throttles(facts, quorum.throttles, thresholds)
    for _, broker in sorted(quorum.brokers.items()):
        since = broker.leaving_since_timestamp_ms if broker.alive else None
        if since is not None and newest - since >= thresholds.ms(SHUTTING_DOWN_FOR.name):
            yield _shutdown(facts, broker, since, newest)
    migration = quorum.zk_migration
    if migration:
        limit = _STATE_LIMITS.get(migration.state)
        in_zookeeper_mode = [broker for _, broker in sorted(quorum.brokers.items()) if broker.zookeeper_mode]
        if limit and newest - migration.since_timestamp_ms >= limit:
            yield _migration(facts, migration, in_zookeeper_mode, newest)
        elif in_zookeeper_mode and migration.state in (ZkMigrationState.MIGRATION, ZkMigrationState.POST_MIGRATION):
            yield _in_zookeeper_mode(facts, migration, in_zookeeper_mode)


def _reassignments(facts: Facts, newest: Millis, thresholds: Thresholds) -> Iterable[Finding]:
    late: list[Reassignment] = []
    for reassignment in facts.quorum.reassignments:
        limit = BLOCKED_FOR if _down(facts.quorum, reassignment) else REASSIGNED_FOR
        if newest - reassignment.since_timestamp_ms >= thresholds.ms(limit.name):
            late.append(reassignment)
    if late:
        yield _reassignment(facts, late, newest)


def _down(quorum: Quorum, one: Reassignment) -> list[NodeId]:
    """Returns the brokers that do not copy their new replicas, because they are fenced or not registered."""
    return [node for node in one.adding if node not in quorum.brokers or quorum.brokers[node].fenced]


def _reassignment(facts: Facts, late: list[Reassignment], newest: Millis) -> Finding:
    down = sorted({node for reassignment in late for node in _down(facts.quorum, reassignment)})
    controllers = [node for node in down if node in facts.controllers_only]
    stopped = [node for node in down if node not in controllers]
    oldest, adding = late[0], sorted({node for reassignment in late for node in reassignment.adding})
    waits = (
        f" {'Broker' if len(down) == 1 else 'Brokers'} {and_join(down, _MOST_NAMED)}, which should copy "
        f"{'it' if len(late) == 1 else 'them'}, {'is' if len(down) == 1 else 'are'} {_why_not(stopped, controllers)}."
        if down
        else f" New replicas are on {'broker' if len(adding) == 1 else 'brokers'} {and_join(adding, _MOST_NAMED)}."
        if adding
        else ""
    )
    least = " at least" if oldest.at_least else ""
    return Finding(
        subject=REASSIGNMENT,
        severity=Severity.WARNING,
        summary=f"{plural(len(late), 'partition')} {'has' if len(late) == 1 else 'have'} been in reassignment since "
        f"{utc_text(oldest.since_timestamp_ms)}{least}, and it does not end.{waits}",
        evidence={
            "partitions_too_late": len(late),
            "partitions_reassigned": len(facts.quorum.reassignments),
            "oldest_since": utc_text(oldest.since_timestamp_ms),
            "brokers_with_new_replicas": [*adding],
            "brokers_down": [*down],
            "examples": first_values(
                [f"{reassignment.topic or reassignment.topic_id}-{reassignment.partition}" for reassignment in late]
            ),
        },
        remedy=(
            *(
                (starts(f"# Start {numbered('broker', stopped, _MOST_NAMED)}, or cancel the reassignment", *stopped),)
                if stopped
                else ()
            ),
            *(
                restarts(f"# Cancel the reassignment, or {start_as_broker(node)}", node)
                for node in controllers[:_MOST_NAMED]
            ),
            list_reassignments(facts),
            *(
                ("# If every broker runs, raise the replication throttle, or remove it",)
                if facts.quorum.throttles
                else ()
            ),
            "# To go back, run kafka-reassign-partitions.sh --cancel with the JSON file that began it",
        ),
        starts=tuple(down),
        condition_age_ms=Millis(newest - oldest.since_timestamp_ms),
    )


def _throttles(facts: Facts, throttles: Sequence[Throttle], thresholds: Thresholds) -> Finding:
    topics = [one.topic for one in throttles if one.topic is not None]
    brokers = [one.broker for one in throttles if one.broker is not None]
    by_default = len(topics) + len(brokers) < len(throttles)
    slow = topics and (brokers or by_default)
    listed = [
        *([numbered("topic", topics, _MOST_NAMED)] if topics else []),
        *([numbered("broker", sorted(brokers), _MOST_NAMED)] if brokers else []),
        *(["all brokers by default"] if by_default else []),
    ]
    further = len(throttles) - _MOST_NAMED
    return Finding(
        subject=THROTTLES,
        severity=Severity.WARNING if slow else Severity.INFO,
        summary=f"Replication throttles are left, and no partition is reassigned: of {and_join(listed)}. "
        + (
            "Replicas that catch up there are slowed down, also after a failure."
            if slow
            else "They slow nothing down until lists of replicas and rates of brokers are both set."
        ),
        evidence={
            "topics": [*topics[:_MOST_NAMED]],
            "number_of_topics": len(topics),
            "brokers": [*sorted(brokers)[:_MOST_NAMED]],
            "number_of_brokers": len(brokers),
            "default_of_all_brokers": by_default,
        },
        remedy=(
            *(remove_throttle(facts, one) for one in throttles[:_MOST_NAMED]),
            *((f"# Remove {plural(further, 'further throttle')} in the same way",) if further > 0 else ()),
            "# If a tool that balances the cluster set them, check in its log whether it ended",
        ),
        hold_ms=thresholds.ms(THROTTLED_FOR.name),
    )


def _why_not(stopped: list[NodeId], controllers: list[NodeId]) -> str:
    causes = ["down or not registered"] if stopped else []
    return " or ".join([*causes, "running as a controller only"] if controllers else causes)


def _shutdown(facts: Facts, broker: BrokerRegistration, since: Millis, newest: Millis) -> Finding:
    quorum = facts.quorum
    of_broker, known = quorum.brokers_down.get(broker.id), fresh_poll(quorum) is not None
    leads = 0 if of_broker is None else of_broker.leads
    behind = facts.brokers_behind
    waits = (
        "it leads no partition and still counts as alive"
        if not leads
        else f"it still leads {plural(leads, 'partition')}"
    )
    summary = f"Broker {broker.id} has been shutting down since {utc_text(since)} and does not stop: {waits}."
    if behind:
        do, holds = ("does", "holds") if len(behind) == 1 else ("do", "hold")
        summary += (
            f" {numbered('Broker', behind, _MOST_NAMED)} {do} not keep up with the metadata log, and {holds} it up."
        )
    elif known and not leads and len(quorum.brokers) > 1:
        summary += " All other brokers fetch the metadata log; one that does not apply it may hold it up."
    return Finding(
        subject=Subject("broker", broker.id),
        severity=Severity.WARNING,
        summary=summary,
        evidence={
            "broker": broker.id,
            "shutting_down_since": utc_text(since),
            "incarnation_id": broker.incarnation_id,
            "partitions_it_leads": leads,
            "brokers_behind": [*behind] if known else None,
        },
        remedy=(
            *(
                f"# Read in the log of broker {node} why it does not keep up with the metadata log: until it does, no "
                "broker completes a controlled shutdown"
                for node in behind[:_MOST_NAMED]
            ),
            f"# Read in the log of broker {broker.id} what its shutdown waits for",
            "# Compare last-applied-record-lag-ms of kafka.server:type=broker-metadata-metrics on the other brokers: "
            "one that does not apply the metadata holds every controlled shutdown",
            restarts(
                f"# If its log stands still, take a thread dump and end its process, then start broker {broker.id}",
                broker.id,
            ),
        ),
        condition_age_ms=Millis(newest - since),
    )


def _in_zookeeper_mode(facts: Facts, migration: ZkMigration, brokers: list[BrokerRegistration]) -> Finding:
    """Returns the finding for brokers in ZooKeeper mode while, or after, the metadata is written to both."""
    over, alive = migration.state is ZkMigrationState.POST_MIGRATION, [broker.id for broker in brokers if broker.alive]
    names, are = (
        numbered("broker", [broker.id for broker in brokers], _MOST_NAMED),
        "is" if len(brokers) == 1 else "are",
    )
    summary = f"Do not finalize the migration from ZooKeeper: {names} {are} still in ZooKeeper mode."
    if over:
        summary = (
            f"The migration from ZooKeeper was finalized while {names} {'was' if len(brokers) == 1 else 'were'} in "
            "ZooKeeper mode. The active controller no longer sends metadata to "
            + ("it: " if len(brokers) == 1 else "them: ")
            + (
                f"{numbered('broker', alive, _MOST_NAMED)} {'serves' if len(alive) == 1 else 'serve'} clients with "
                "outdated metadata."
                if alive
                else f"{'it is' if len(brokers) == 1 else 'all of them are'} fenced."
            )
        )
    return Finding(
        subject=MIGRATION,
        severity=(Severity.CRITICAL if alive else Severity.WARNING) if over else Severity.INFO,
        summary=summary,
        evidence={
            "state": migration.state.value,
            "since": f"{'before ' if migration.at_least else ''}{utc_text(migration.since_timestamp_ms)}",
            "brokers_in_zookeeper_mode": [broker.id for broker in brokers],
            "brokers_registered": len(facts.quorum.brokers),
        },
        remedy=(
            _restart_in_kraft_mode(brokers),
            *(() if over else (_FINALIZE,)),
            describe_features(facts),
        ),
    )


_FINALIZE = (
    "# When all of them run in KRaft mode, restart the controllers without zookeeper.metadata.migration.enable, one "
    "after the other: after that there is no way back"
)


def _restart_in_kraft_mode(brokers: list[BrokerRegistration]) -> str:
    ids = [broker.id for broker in brokers]
    names = numbered("broker", ids, _MOST_NAMED)
    return restarts(
        f"# Restart {names} in KRaft mode{', one after the other' if len(brokers) > 1 else ''}: process.roles=broker, "
        "node.id as the former broker.id, the controllers' addresses, and no zookeeper.connect",
        *ids,
    )


def _migration(
    facts: Facts, migration: ZkMigration, in_zookeeper_mode: list[BrokerRegistration], newest: Millis
) -> Finding:
    names = numbered("broker", [broker.id for broker in in_zookeeper_mode], _MOST_NAMED)
    are = "is" if len(in_zookeeper_mode) == 1 else "are"
    age_ms = Millis(newest - migration.since_timestamp_ms)
    least = " at least" if migration.at_least else ""
    waits = migration.state is ZkMigrationState.PRE_MIGRATION
    return Finding(
        subject=MIGRATION,
        severity=Severity.WARNING,
        summary=f"The migration from ZooKeeper has been in state {migration.state} since "
        f"{utc_text(migration.since_timestamp_ms)}{least}. "
        + (
            "The controllers wait for brokers to register: the metadata is still in ZooKeeper alone."
            if waits
            else "The metadata is written to ZooKeeper and to the log."
        )
        + (
            ""
            if not in_zookeeper_mode
            else f" Registered so far: {names}."
            if waits
            else f" Do not finalize it: {names} {are} still in ZooKeeper mode."
        ),
        evidence={
            "state": migration.state.value,
            "lasts": ms_text(age_ms),
            "brokers_registered": len(facts.quorum.brokers),
            "brokers_in_zookeeper_mode": [broker.id for broker in in_zookeeper_mode],
            "metadata_version": facts.quorum.metadata_version,
        },
        remedy=(
            "# Restart each ZooKeeper-mode broker with zookeeper.metadata.migration.enable=true: the log of the active "
            "controller lists those that it waits for"
            if waits
            else _restart_in_kraft_mode(in_zookeeper_mode)
            if in_zookeeper_mode
            else "# Restart each broker that still runs in ZooKeeper mode in KRaft mode (process.roles=broker)",
            _FINALIZE,
            describe_features(facts),
        ),
        condition_age_ms=age_ms,
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    if subject == REASSIGNMENT:
        left = len(quorum.reassignments)
        return f"Partitions that are being reassigned: {left}." if left else "No partition is being reassigned."
    if subject == THROTTLES:
        left = len(quorum.throttles)
        return f"Partitions are reassigned, and {left} throttles are set." if left else "No throttle is set."
    if subject == MIGRATION:
        state = quorum.zk_migration.state if quorum.zk_migration else ZkMigrationState.NONE
        left = sum(broker.zookeeper_mode for broker in quorum.brokers.values())
        return f"The migration from ZooKeeper is in state {state}. Brokers in ZooKeeper mode: {left}."
    broker = quorum.brokers.get(subject.node)
    if broker is None:
        return f"Broker {subject.node} is no longer registered."
    if broker.fenced:
        return f"Broker {broker.id} has left."
    return over(subject) if broker.in_controlled_shutdown else f"Broker {broker.id} is alive."


RULE = Rule(
    title="An operation does not end",
    resolved=_resolved,
    hold=hold(60.0),
    further_thresholds=(
        REASSIGNED_FOR,
        BLOCKED_FOR,
        THROTTLED_FOR,
        SHUTTING_DOWN_FOR,
    ),
    needs=(Need.CURRENT_LOG,),
    inhibited_by=("controller-stuck", "open-transaction"),
    grouped_with=("broker-fenced", "partitions-offline", "node-not-registered"),
)
