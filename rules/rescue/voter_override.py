"""KIP-1347's voter override, as far as it can be evaluated without writing: the list, and what it would change.

The KIP is under discussion and in no Kafka release; `--override-voters` would write a snapshot with a new VotersRecord.
This module compares, rejects and prints as the KIP's text does (its class VoterSetDiff), so that the result is known
before any disk is changed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey, at_listener
from rules.model.membership import ControllerRegistration, FeatureRange, Voter

_ITEM = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]+\]|[^:\[\]@,\s]+):(?P<port>\d{1,5}):(?P<directory>[A-Za-z0-9_-]{22})")
_PORT_MAX = 65535
KRAFT_VERSIONS = FeatureRange(name="kraft.version", lowest=0, highest=1)
"""What every released Kafka with dynamic quorums supports, and so what it records for the voters of a list."""


class OverrideOutcome(StrEnum):
    """What the override would do with a list."""

    NO_CHANGE = "no-change"
    PASSED = "passed"
    """Only endpoints change."""
    REJECTED = "rejected"
    """Node ids or directory ids change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideDifference:
    """KIP-1347's VoterSetDiff: a recorded voter set compared with the provided list."""

    has_voter_id_changes: bool
    has_directory_id_changes: bool
    endpoint_changes: Mapping[NodeId, Endpoint]
    """The new endpoint of each voter whose host or port differs as text; only of voters that are in both sets."""
    lost_listeners: Mapping[NodeId, tuple[Endpoint, ...]]
    """The recorded endpoints that the override would remove: the list has one listener per voter."""

    @property
    def outcome(self) -> OverrideOutcome:
        """Rejected, no change, or passed, by the KIP's rules."""
        if self.has_voter_id_changes or self.has_directory_id_changes:
            return OverrideOutcome.REJECTED
        return OverrideOutcome.PASSED if self.endpoint_changes else OverrideOutcome.NO_CHANGE

    def __str__(self) -> str:
        """Returns the difference as the KIP prints it."""
        changes = ", ".join(f"{node}={endpoint}" for node, endpoint in sorted(self.endpoint_changes.items()))
        ids, directories = (str(flag).lower() for flag in (self.has_voter_id_changes, self.has_directory_id_changes))
        flags = f"hasVoterIdChanges={ids}, hasDirectoryIdChanges={directories}"
        return f"VoterSetDiff{{{flags}, endpointChanges={{{changes}}}}}"


def parse_controllers(text: str, listener: str) -> tuple[Voter, ...]:
    """Parses a list of voters as `--initial-controllers` takes it: ID@HOST:PORT:DIRECTORY_ID, comma separated.

    An IPv6 address is in brackets; the list does not contain the name of the listener. Raises a ValueError, one
    sentence about the first invalid item.
    """
    voters: dict[NodeId, Voter] = {}
    for item in (part.strip() for part in text.split(",")):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"'{item}' is not ID@HOST:PORT:DIRECTORY_ID (a directory id has 22 characters)")
        node, port = NodeId(int(match["id"])), int(match["port"])
        if not 0 < port <= _PORT_MAX:
            raise ValueError(f"'{item}': {port} is no port")
        if node in voters:
            raise ValueError(f"controller {node} occurs twice in the list")
        endpoint = Endpoint(listener=listener, host=match["host"].strip("[]"), port=port)
        address = str(endpoint).lower()
        other = next((voter.key.id for voter in voters.values() if str(voter.endpoints[0]).lower() == address), None)
        if other is not None:
            raise ValueError(
                f"controllers {other} and {node} both have the address {endpoint}: give each voter its own host or port"
            )
        key = ReplicaKey(id=node, directory_id=DirectoryId(match["directory"]))
        voters[node] = Voter(key=key, endpoints=(endpoint,))
    return tuple(voters[node] for node in sorted(voters))


def initial_controllers(voters: Iterable[Voter]) -> str | None:
    """Returns these voters as a list for `--initial-controllers`; None if one has no endpoint or directory id.

    An operator who rescues a quorum that is down needs this list, and no Kafka tool can print it then.
    """
    items = []
    for voter in sorted(voters, key=lambda voter: voter.key.id):
        if not voter.endpoints or voter.key.directory_id is None:
            return None
        items.append(f"{voter.key.id}@{voter.endpoints[0]}:{voter.key.directory_id}")
    return ",".join(items)


def _version_range(supported: FeatureRange) -> str:
    return f"SupportedVersionRange[min_version:{supported.lowest}, max_version:{supported.highest}]"


def registered_voters(
    voters: Iterable[Voter], controllers: Mapping[NodeId, ControllerRegistration]
) -> tuple[Voter, ...]:
    """Returns the voters with the endpoints that the controllers registered, where these differ."""
    return tuple(_as_registered(voter, controllers.get(voter.key.id)) for voter in voters)


def _as_registered(voter: Voter, registration: ControllerRegistration | None) -> Voter:
    if registration is None or not voter.endpoints:
        return voter
    recorded, *others = voter.endpoints
    now = at_listener(registration.endpoints, recorded.listener) or recorded
    return replace(voter, endpoints=(replace(recorded, host=now.host, port=now.port), *others))


def compare(persisted: Iterable[Voter], provided: Iterable[Voter]) -> OverrideDifference:
    """Returns what the list would change in a recorded voter set. Hosts are compared as text, as the KIP does."""
    before = {voter.key.id: voter for voter in persisted}
    after = {voter.key.id: voter for voter in provided}
    both = sorted(before.keys() & after.keys())
    changes: dict[NodeId, Endpoint] = {}
    lost: dict[NodeId, tuple[Endpoint, ...]] = {}
    for node in both:
        new = after[node].endpoints[0]
        recorded = [
            endpoint for endpoint in before[node].endpoints if endpoint.listener.upper() == new.listener.upper()
        ]
        if [(endpoint.host, endpoint.port) for endpoint in recorded] != [(new.host, new.port)]:
            changes[node] = new
        others = tuple(endpoint for endpoint in before[node].endpoints if endpoint not in recorded)
        if others:
            lost[node] = others
    return OverrideDifference(
        has_voter_id_changes=before.keys() != after.keys(),
        has_directory_id_changes=any(before[node].key != after[node].key for node in both),
        endpoint_changes=changes,
        lost_listeners=lost,
    )


def voter_set_text(voters: Iterable[Voter]) -> str:
    """Returns a voter set as Kafka's VoterSet prints it."""
    nodes = ", ".join(
        f"VoterNode(voterKey=ReplicaKey(id={voter.key.id}, directoryId={voter.key.directory_id}), "
        f"listeners=Endpoints({', '.join(f'{endpoint.listener}://{endpoint}' for endpoint in voter.endpoints)}), "
        f"supportedKRaftVersion={_version_range(voter.kraft_versions or KRAFT_VERSIONS)})"
        for voter in sorted(voters, key=lambda voter: voter.key.id)
    )
    return f"VoterSet(voters=[{nodes}])"
