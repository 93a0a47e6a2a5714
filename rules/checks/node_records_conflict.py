"""The records of two nodes contradict each other: one directory id under two node ids, or different listeners.

What it means
    - One directory id under two node ids: a disk or a machine image was cloned after Kafka had formatted it. Directory
      ids must be unique (KIP-853, KIP-856): Kafka identifies a voter by node id and directory id, and the clone holds
      a copy of the other node's log, its vote and its epoch.
    - A voter's VotersRecord names a listener that its own registration does not have; or a controller dials a listener,
      the first of its controller.listener.names, that another voter does not have; or controllers register the listener
      that is dialled with different security protocols. A controller dials the others by the name of its own first
      listener, with its own protocol: with different ones they cannot connect after a restart.

    Nothing has failed yet. Only nodes that fetch are compared. While all controllers have both listeners, some may dial
    the new one and some the former one: so a listener is replaced in three rolling restarts.

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

from rules.analysis.freshness import needed
from rules.analysis.replica_lag import last_fetch_text
from rules.finding import Finding, Need, Plain, Rule, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered
from rules.model.following import following
from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey, at_listener
from rules.model.membership import Voter, VoterSet
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each directory id under two node ids, and one for each voter with another listener."""
    poll, committed = needed(quorum.poll), needed(quorum.committed)
    for directory, keys in _shared_directories(poll).items():
        fetching = [key for key in keys if following(quorum, poll, key).fetches]
        if len(fetching) > 1:
            yield _cloned(quorum, poll, directory, fetching)
    yield from _listeners(quorum, committed)


def _shared_directories(poll: Poll) -> dict[DirectoryId, list[ReplicaKey]]:
    found: dict[DirectoryId, list[ReplicaKey]] = {}
    for row in (*poll.voters, *poll.observers):
        if row.key.directory_id is not None:
            found.setdefault(row.key.directory_id, []).append(row.key)
    return {directory: sorted(keys) for directory, keys in sorted(found.items()) if len({key.id for key in keys}) > 1}


def _listeners(quorum: Quorum, committed: VoterSet) -> Iterable[Finding]:
    """Yields the voters that other voters cannot dial, or that cannot dial others: those that differ from the most."""
    dialled = {voter.key.id: name for voter in committed.voters if (name := _dialled(quorum, voter)) is not None}
    usual = _usual(quorum, dialled)
    usual_protocols = {name: _usual(quorum, _protocols(quorum, committed, name)) for name in {*dialled.values()}}
    for voter in sorted(committed.voters, key=lambda voter: voter.key.id):
        node, recorded = voter.key.id, voter.endpoint
        registration = quorum.controllers.get(node)
        if registration is None or recorded is None:
            continue
        if at_listener(registration.endpoints, recorded.listener) is None:
            yield _other_listener(quorum, voter)
            continue
        own = dialled.get(node, usual)
        if usual is not None and at_listener(registration.endpoints, usual) is None:
            yield _not_dialled(quorum, voter, usual, [one for one, name in dialled.items() if name == usual])
        elif own is not None and own != usual and (lacking := _without(quorum, committed, own)):
            yield _dials_in_vain(quorum, voter, own, lacking)
        else:
            different = (
                (endpoint, protocol)
                for name, protocol in sorted(usual_protocols.items())
                if (endpoint := at_listener(registration.endpoints, name)) and endpoint.protocol and protocol
            )
            found = next((one for one in different if one[0].protocol != one[1]), None)
            if found is not None:
                yield _other_protocol(quorum, voter, *found, _protocols(quorum, committed, found[0].listener))


def _dialled(quorum: Quorum, voter: Voter) -> str | None:
    """Returns the name of the listener at which a controller dials the others, in capitals; None if it is not known.

    It is the first one of a registration in the log. A registration in a snapshot does not keep the order.
    """
    registration = quorum.controllers.get(voter.key.id)
    if voter.endpoint is None or registration is None:
        return None
    known = len(registration.endpoints) == 1 or not registration.at.snapshot
    return voter.endpoint.listener.upper() if known else None


def _without(quorum: Quorum, committed: VoterSet, listener: str) -> list[NodeId]:
    registered = {node: one.endpoints for node, one in quorum.controllers.items()}
    return sorted(
        voter.key.id
        for voter in committed.voters
        if at_listener(registered.get(voter.key.id, voter.endpoints), listener) is None
    )


def _protocols(quorum: Quorum, committed: VoterSet, listener: str) -> dict[NodeId, str]:
    """Returns the protocol with which each voter registered a listener of this name."""
    registrations = [one for node, one in sorted(quorum.controllers.items()) if node in committed.ids]
    found = {one.id: at_listener(one.endpoints, listener) for one in registrations}
    return {node: one.protocol for node, one in found.items() if one is not None and one.protocol}


def _usual(quorum: Quorum, values: Mapping[NodeId, str]) -> str | None:
    """Returns what most voters have; of two that are as frequent, the leader's."""
    counts = Counter(values.values())
    leader = values.get(quorum.leader_id) if quorum.leader_id is not None else None
    return max(sorted(counts), key=lambda name: (counts[name], name == leader), default=None)


def _cloned(quorum: Quorum, poll: Poll, directory: DirectoryId, keys: list[ReplicaKey]) -> Finding:
    nodes = and_join(key.id for key in keys)
    voters = [key.id for key in keys if key in poll.voter_keys]
    others = [key.id for key in keys if key not in poll.voter_keys] if voters else []
    stop = f"Stop {numbered('node', others)}" if others else f"Stop the one of nodes {nodes} that was added last"
    format_it = "delete its metadata directory and format it, a controller with --no-initial-controllers"
    if len(others) > 1:
        format_it = "delete their metadata directories and format them, controllers with --no-initial-controllers"
    return Finding(
        subject=Subject("directory", directory),
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
            f"# {stop}, {format_it}",
            "# Do not make a controller on a cloned disk a voter",
            describe_status(quorum),
        ),
    )


def _other_listener(quorum: Quorum, voter: Voter) -> Finding:
    node, recorded = voter.key.id, voter.endpoints[0]
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {node} is recorded with listener {recorded.listener}, which its registration does not have. "
        "Other voters cannot dial it after a restart.",
        details=_names(quorum, node),
    )


def _not_dialled(quorum: Quorum, voter: Voter, listener: str, by: list[NodeId]) -> Finding:
    node = voter.key.id
    voters = f"voter {by[0]} dials" if len(by) == 1 else f"voters {and_join(sorted(by))} dial"
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {node} has no listener {listener}, which {voters}. They cannot connect to it after a restart.",
        details={"dialled_listener": listener, "dialled_by": [*sorted(by)], **_names(quorum, node)},
    )


def _dials_in_vain(quorum: Quorum, voter: Voter, listener: str, lacking: list[NodeId]) -> Finding:
    node = voter.key.id
    have, them = f"voter {lacking[0]} does not", f"voter {lacking[0]}"
    if len(lacking) > 1:
        have, them = f"voters {and_join(lacking)} do not", "them"
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {node} dials listener {listener}, which {have} have. It cannot connect to {them} after "
        "a restart.",
        details={"dialled_listener": listener, "voters_without_it": [*lacking], **_names(quorum, node)},
        keep_running=frozenset({node}),
    )


def _names(quorum: Quorum, node: NodeId) -> dict[str, Plain]:
    return {"registered_listeners": [f"{one.listener} at {one}" for one in quorum.controllers[node].endpoints]}


def _other_protocol(
    quorum: Quorum, voter: Voter, endpoint: Endpoint, usual: str, protocols: Mapping[NodeId, str]
) -> Finding:
    return _listener_finding(
        quorum,
        voter,
        summary=f"Voter {voter.key.id} registered listener {endpoint.listener} with protocol {endpoint.protocol}, "
        f"other voters with {usual}. They cannot connect to each other after a restart.",
        details={"registered_protocols": {str(node): protocol for node, protocol in sorted(protocols.items())}},
        keep_running=quorum.voter_ids,
    )


def _listener_finding(
    quorum: Quorum,
    voter: Voter,
    *,
    summary: str,
    details: Mapping[str, Plain],
    keep_running: frozenset[NodeId] | None = None,
) -> Finding:
    """`keep_running`: the voters that must not restart with their settings; None: all others."""
    node, recorded = voter.key.id, voter.endpoints[0]
    return Finding(
        subject=Subject("voter", node),
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
            "# If the listener is being replaced, give every controller both listeners first, the former one first",
            f"# Else give controller {node} the settings of the others and restart it alone",
            describe_status(quorum, excluding=node),
        ),
        starts=(node,),
        keep_running=quorum.voter_ids - {node} if keep_running is None else keep_running,
    )


def _resolved(quorum: Quorum, subject: Subject) -> str:
    if subject.kind == "directory":
        return f"At most one node has the directory id {subject.name}."
    if quorum.committed and not quorum.voter(subject.node):
        return f"Controller {subject.node} is not a voter."
    return f"The recorded and the registered listener of {subject} agree."


RULE = Rule(
    title="Records of nodes contradict each other",
    resolved=_resolved,
    hold=hold(60.0),
    needs=(Need.VOTERS_RECORD, Need.FRESH_POLL),
    inhibited_by=("no-leader",),
)
