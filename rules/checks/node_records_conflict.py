"""The records of two nodes contradict each other: one directory id under two node ids, or different listeners.

What it means
    - One directory id under two node ids: a disk or a machine image was cloned after Kafka had formatted it, or only
      `meta.properties` was copied, with another node.id, over a log of the node's own. Directory ids must be unique
      (KIP-853, KIP-856): Kafka identifies a voter by node id and directory id, and a clone holds a copy of the other
      node's log, its vote and its epoch.
    - A voter's VotersRecord names a listener that its own registration does not have; or a controller dials a listener,
      the first of its controller.listener.names, that another voter does not have; or controllers register the listener
      that is dialled with different security protocols. A controller dials the others by the name of its own first
      listener, with its own protocol: with different ones they cannot connect after a restart.

    Nothing has failed yet. Only nodes that fetch are compared. While all controllers have both listeners, some may dial
    the new one and some the former one: so a listener is replaced in three rolling restarts.

What to do
    - Only `meta.properties` was copied: stop the node, write its own `directory.id` back, and start it. Without that
      line Kafka makes a new directory id.
    - Cloned disk: stop the node that was added last, delete its metadata directory, format it (a controller with
      --no-initial-controllers), and start it.
    - Listeners: give all controllers the same controller.listener.names and listener.security.protocol.map, and restart
      the different ones, one at a time.

What not to do
    Do not add a controller on a cloned disk to the voters. Do not restart several controllers before their listeners
    agree.
"""

from collections.abc import Iterable
from itertools import chain

from rules.claims.words import not_a_voter
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import last_fetch_text
from rules.facts.unlike_listeners import UnlikeListener
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered
from rules.model.identifiers import DirectoryId, ReplicaKey
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import Act, does, may_restart
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each directory id under two node ids, and one for each voter with another listener."""
    poll = needed(facts.quorum.poll)
    for directory, keys in _shared_directories(facts).items():
        yield _cloned(facts, poll, directory, keys)
    yield from (_unlike(facts, found) for found in facts.unlike_listeners)


def _shared_directories(facts: Facts) -> dict[DirectoryId, list[ReplicaKey]]:
    found: dict[DirectoryId, list[ReplicaKey]] = {}
    for key in chain.from_iterable(facts.nodes.fetching.values()):
        if key.directory_id is not None:
            found.setdefault(key.directory_id, []).append(key)
    return {directory: sorted(keys) for directory, keys in sorted(found.items()) if len(keys) > 1}


def _cloned(facts: Facts, poll: Poll, directory: DirectoryId, keys: list[ReplicaKey]) -> Finding:
    nodes = and_join(key.id for key in keys)
    voters = [key.id for key in keys if key in poll.voter_keys]
    others = [key.id for key in keys if key not in poll.voter_keys] if voters else []
    stop = f"stop {numbered('node', others)}" if others else f"stop the one of nodes {nodes} that was added last"
    recorded = facts.quorum.committed.voters if facts.quorum.committed else ()
    own = {voter.key.id: voter.key.directory_id for voter in recorded if voter.key.directory_id != directory}
    known = [f"{own[key.id]} of controller {key.id}" for key in keys if key.id in own]
    format_it = "delete its metadata directory and format it, a controller with --no-initial-controllers"
    if len(others) > 1:
        format_it = "delete their metadata directories and format them, controllers with --no-initial-controllers"
    return Finding(
        subject=Subject("directory", directory),
        severity=Severity.WARNING,
        summary=f"Nodes {nodes} have the same directory id {directory}: a disk or its "
        "meta.properties was copied. Directory ids must be unique.",
        evidence={
            "directory_id": directory,
            "node_ids": [key.id for key in keys],
            "voter_ids": [*voters],
            "last_fetched": {str(key): last_fetch_text(facts.quorum, poll, key) for key in keys},
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            "# If only meta.properties was copied, the log is the node's own: stop the node, and "
            + (f"write its own directory.id back ({and_join(known)})" if known else "remove the line directory.id"),
            does(f"# If the disk was cloned, {stop}, {format_it}", *((act, others) for act in (Act.STOP, Act.FORMAT))),
            "# Do not make a controller on a cloned disk a voter",
            describe_status(facts),
        ),
    )


def _unlike(facts: Facts, found: UnlikeListener) -> Finding:
    node, recorded = found.voter.key.id, found.voter.endpoints[0]
    return Finding(
        subject=Subject("voter", node),
        severity=Severity.WARNING,
        summary=f"Voter {node} {found.why}. {found.consequence}",
        evidence={
            "voter": str(found.voter.key),
            "recorded_listener": recorded.listener,
            "recorded_endpoint": str(recorded),
            **found.details,
            "registered_at_offset": facts.quorum.controllers[node].at.offset,
            "leader": facts.quorum.leader_id,
        },
        remedy=(
            f"# Compare controller.listener.names and listener.security.protocol.map of controller {node} with those "
            "of the other controllers",
            "# If the listener is being replaced, give every controller both listeners first, the former one first",
            may_restart(f"# Else give controller {node} the settings of the others and restart it alone", node),
            describe_status(facts, excluding=node),
        ),
        keep_running=found.keep_running,
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject.kind == "directory":
        return f"At most one node has the directory id {subject.name}."
    if facts.quorum.committed and not facts.quorum.voter(subject.node):
        return not_a_voter(subject.node)
    return f"The recorded and the registered listener of {subject} agree."


RULE = Rule(
    title="Records of nodes contradict each other",
    resolved=_resolved,
    hold=hold(60.0),
    needs=(Need.VOTERS_RECORD, Need.FRESH_POLL),
)
