"""The records of two nodes contradict each other: one directory id under two node ids, or different listeners.

What it means
    - One directory id under two node ids: a disk or a machine image was cloned after Kafka had formatted it. Directory
      ids must be unique (KIP-853, KIP-856): Kafka identifies a voter by node id and directory id, and the clone holds
      a copy of the other node's log, its vote and its epoch.
    - A voter's VotersRecord names a listener that its own registration does not have, or controllers register the same
      listener with different security protocols. Controllers dial each other by the VotersRecord with their own
      protocol: with different ones they cannot connect after a restart.

    Nothing has failed yet. Only nodes that fetch are compared.

What to do
    - Cloned disk: stop the node that was added last, delete its metadata directory, format it (a controller with
      --no-initial-controllers), and start it.
    - Listeners: give all controllers the same controller.listener.names and listener.security.protocol.map, and restart
      the different ones, one at a time.

What not to do
    Do not add a controller on a cloned disk to the voters. Do not restart several controllers before their listeners
    agree.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from rules.analysis.freshness import FETCH_AGE, POLL_AGE, needed
from rules.analysis.now import node_of
from rules.analysis.replica_lag import Liveness, last_fetch_text, liveness
from rules.finding import Finding, Need, Plain, Rule, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join
from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey, at_listener
from rules.model.membership import Voter
from rules.model.quorum import Poll, Quorum
from rules.remedies.remedy_commands import describe_status


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each directory id under two node ids, and one for each voter with another listener."""
    poll, committed = needed(quorum.poll), needed(quorum.committed)
    for directory, keys in _shared_directories(poll).items():
        fetching = [key for key in keys if liveness(quorum, poll, key, thresholds) is Liveness.FETCHING]
        if len(fetching) > 1:
            yield _cloned(quorum, poll, directory, fetching)
    registered = {voter.key.id: _registered(quorum, voter) for voter in committed.voters}
    usual = _usual_protocol(quorum, registered)
    for voter in sorted(committed.voters, key=lambda voter: voter.key.id):
        endpoint = registered[voter.key.id]
        if endpoint is None:
            if voter.endpoints and quorum.controllers.get(voter.key.id):
                yield _other_listener(quorum, voter)
        elif endpoint.protocol and usual and endpoint.protocol != usual:
            yield _other_protocol(quorum, voter, endpoint, usual, registered)


def _shared_directories(poll: Poll) -> dict[DirectoryId, list[ReplicaKey]]:
    found: dict[DirectoryId, list[ReplicaKey]] = {}
    for row in (*poll.voters, *poll.observers):
        if row.key.directory_id is not None:
            found.setdefault(row.key.directory_id, []).append(row.key)
    return {directory: sorted(keys) for directory, keys in sorted(found.items()) if len({key.id for key in keys}) > 1}


def _registered(quorum: Quorum, voter: Voter) -> Endpoint | None:
    registration, dialled = quorum.controllers.get(voter.key.id), voter.endpoint
    return at_listener(registration.endpoints, dialled.listener) if registration and dialled else None


def _usual_protocol(quorum: Quorum, registered: Mapping[NodeId, Endpoint | None]) -> str | None:
    """Returns the protocol that most voters registered; of two that are as frequent, the leader's."""
    protocols = {node: one.protocol for node, one in registered.items() if one is not None and one.protocol}
    counts = Counter(protocols.values())
    leader = protocols.get(quorum.leader_id) if quorum.leader_id is not None else None
    return max(sorted(counts), key=lambda name: (counts[name], name == leader), default=None)


def _cloned(quorum: Quorum, poll: Poll, directory: DirectoryId, keys: list[ReplicaKey]) -> Finding:
    nodes = and_join(key.id for key in keys)
    voters = [key.id for key in keys if key in poll.voter_keys]
    others = [key.id for key in keys if key not in poll.voter_keys] if voters else []
    stop = f"Stop node {and_join(others)}" if others else f"Stop the one of nodes {nodes} that was added last"
    return Finding(
        subject=f"directory {directory}",
        severity=Severity.WARNING,
        summary=f"Nodes {nodes} have the same directory id {directory}: a disk was cloned. "
        "Directory ids must be unique.",
        evidence={
            "directory_id": directory,
            "node_ids": [key.id for key in keys],
            "voter_ids": [*voters],
            "last_fetched": {str(key): last_fetch_text(quorum, poll, key) for key in keys},
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            f"# {stop}, delete its metadata directory and format it, a controller with --no-initial-controllers",
            "# Do not make a controller on a cloned disk a voter",
            describe_status(quorum),
        ),
    )


def _other_listener(quorum: Quorum, voter: Voter) -> Finding:
    node, recorded = voter.key.id, voter.endpoints[0]
    names = [f"{one.listener} at {one}" for one in quorum.controllers[node].endpoints]
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {node} is recorded with listener {recorded.listener}, which its registration does not have. "
        "Other voters cannot dial it after a restart.",
        details={"registered_listeners": [*names]},
    )


def _other_protocol(
    quorum: Quorum, voter: Voter, endpoint: Endpoint, usual: str, registered: Mapping[NodeId, Endpoint | None]
) -> Finding:
    protocols = {str(node): one.protocol for node, one in sorted(registered.items()) if one is not None}
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {voter.key.id} registered listener {endpoint.listener} with protocol {endpoint.protocol}, "
        f"other voters with {usual}. They cannot connect to each other after a restart.",
        details={"registered_protocols": {**protocols}},
    )


def _listener_finding(quorum: Quorum, voter: Voter, *, summary: str, details: Mapping[str, Plain]) -> Finding:
    node, recorded = voter.key.id, voter.endpoints[0]
    return Finding(
        subject=f"voter {node}",
        severity=Severity.WARNING,
        summary=summary,
        evidence={
            "voter": str(voter.key),
            "recorded_listener": recorded.listener,
            "recorded_endpoint": str(recorded),
            **details,
            "registered_at_offset": quorum.controllers[node].at.offset,
            "leader": quorum.leader_id,
        },
        remedy=(
            f"# Compare controller.listener.names and listener.security.protocol.map of controller {node} with those "
            "of the other controllers",
            f"# Give controller {node} the settings of the others and restart it alone",
            describe_status(quorum, excluding=node),
        ),
        starts=(node,),
    )


def _resolved(quorum: Quorum, subject: str) -> str:
    if subject.startswith("directory "):
        return f"At most one node has the {subject.replace('directory', 'directory id', 1)}."
    if quorum.committed and not quorum.voter(node_of(subject)):
        return f"Controller {node_of(subject)} is not a voter."
    return f"The recorded and the registered listener of {subject} agree."


RULE = Rule(
    title="Records of nodes contradict each other",
    resolved=_resolved,
    hold=hold(60.0),
    further_thresholds=(FETCH_AGE, POLL_AGE),
    needs=(Need.VOTERS_RECORD, Need.FRESH_POLL),
    inhibited_by=("no-leader",),
)
