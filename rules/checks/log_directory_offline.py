"""A log directory of a broker is offline, with the replicas in it.

What it means
    A broker keeps partitions in several log directories, usually one for each disk, and goes on without one that fails
    (KIP-858): it counts as alive and serves the others. The replicas in the failed one are in no ISR, so their
    partitions have one replica less. Other replicas lead them; otherwise `partitions-offline` fires instead.

    The log names directories by their id, not by their path.

What to do
    1. Read in the broker's server.log why the directory is offline: "Stopping serving logs in dir". The path is there.
    2. If the disk can be repaired or mounted with its content, do that, then restart the broker: it uses a failed
       directory only after a restart.
    3. If not, replace the disk, or remove the directory from log.dirs, and restart the broker. It copies the replicas
       from their leaders again.

What not to do
    Do not restart another broker that holds the same partitions before these replicas are back in the ISR.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import plural
from rules.model.history import OfflineDirectory
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.subject import Subject
from rules.remedies.remedy_commands import directory_steps
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker with offline log directories."""
    leaderless = {holder for partition in facts.offline for holder in partition.holders}
    for broker, of_broker in groupby(facts.quorum.offline_directories, key=lambda one: one.broker):
        directories = [*of_broker]
        # One cause, one alert: that of partitions-offline.
        if all(
            ReplicaKey(id=broker, directory_id=directory.directory_id) not in leaderless for directory in directories
        ):
            yield _finding(facts, broker, directories)


def _finding(facts: Facts, broker: NodeId, offline: Sequence[OfflineDirectory]) -> Finding:
    replicas, online = sum(directory.replicas for directory in offline), len(facts.quorum.brokers[broker].log_dirs)
    which = "A log directory" if len(offline) == 1 else f"{len(offline)} log directories"
    return Finding(
        subject=Subject("broker", broker),
        severity=Severity.WARNING,
        summary=f"{which} of broker {broker} {'is' if len(offline) == 1 else 'are'} offline, with "
        f"{plural(replicas, 'replica')}. Log directories online: {online}.",
        evidence={
            "broker": broker,
            "log_directories_offline": {str(directory.directory_id): directory.replicas for directory in offline},
            "log_directories_online": [*facts.quorum.brokers[broker].log_dirs],
        },
        remedy=directory_steps(facts, broker),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    broker = subject.node
    if broker not in facts.quorum.brokers:
        return f"Broker {broker} is no longer registered."
    if any(directory.broker == broker for directory in facts.quorum.offline_directories):
        return f"Partitions with a replica in the offline log directory of broker {broker} have no leader now."
    return f"Every replica of broker {broker} is in a log directory that is online."


RULE = Rule(
    title="A log directory is offline",
    resolved=_resolved,
    hold=hold(60.0, "a broker that was restarted without a directory moves its replicas within seconds"),
    further_thresholds=(),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("partitions-offline",),
)
