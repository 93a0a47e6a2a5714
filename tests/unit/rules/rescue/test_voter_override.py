"""KIP-1347's voter override: the list of controllers, the difference to a recorded set, and its text."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Endpoint, NodeId, ReplicaKey
from rules.model.membership import FeatureRange, Voter
from rules.rescue.voter_override import (
    OverrideOutcome,
    compare,
    initial_controllers,
    parse_controllers,
    registered_voters,
    voter_set_text,
)
from tests.situation.commands import situation
from tests.situation.situation import controller_key


def key(node: int, directory: str = "dir") -> ReplicaKey:
    """Returns a key whose directory id has 22 characters, as a list of controllers must name it."""
    return controller_key(node, f"{directory}{node}".ljust(22, "A"))


def endpoint(node: int, host: str | None = None, port: int = 9093) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=host or f"c{node}.test", port=port)


HERE = tuple(Voter(key=key(node), endpoints=(endpoint(node),)) for node in (1, 2, 3))
LIST = ",".join(f"{node}@c{node}.test:9093:{key(node).directory_id}" for node in (1, 2, 3))


def moved_voters(*nodes: int, host: str = "moved.test", port: int = 9093) -> tuple[Voter, ...]:
    """Returns the same voters, with other endpoints for these nodes."""
    moved = {node: (endpoint(node, host, port),) for node in nodes}
    return tuple(replace(one, endpoints=moved.get(one.key.id, one.endpoints)) for one in HERE)


def test_list_of_controllers_is_parsed_and_printed() -> None:
    assert parse_controllers(LIST, "CONTROLLER") == HERE
    assert initial_controllers(HERE) == LIST
    assert parse_controllers(" , ".join(reversed(LIST.split(","))), "CONTROLLER") == HERE, "in any order"


def test_two_controllers_may_share_a_host_and_ipv6_is_in_brackets() -> None:
    text = f"1@[::1]:9093:{key(1).directory_id},2@[::1]:65535:{key(2).directory_id}"

    voters = parse_controllers(text, "CONTROLLER")

    assert [(one.endpoints[0].host, one.endpoints[0].port) for one in voters] == [("::1", 9093), ("::1", 65535)]
    assert initial_controllers(voters) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not ID@HOST:PORT:DIRECTORY_ID"),
        ("1@c1:9093", "'1@c1:9093' is not ID@HOST:PORT:DIRECTORY_ID"),
        ("c1:9093:AAAAAAAAAAAAAAAAAAAAAB", "is not ID@HOST"),
        ("1@c1:9093:short", "a directory id has 22 characters"),
        ("1@c1:65536:AAAAAAAAAAAAAAAAAAAAAB", "65536 is no port"),
        ("1@c1:0:AAAAAAAAAAAAAAAAAAAAAB", "0 is no port"),
        (f"{LIST},{LIST.split(',')[0]}", "controller 1 occurs twice"),
        (f"{LIST},1@new.test:9093:AAAAAAAAAAAAAAAAAAAAAB", "controller 1 occurs twice"),
        (f"{LIST},", "'' is not"),
    ],
)
def test_invalid_list_is_reported_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_controllers(text, "CONTROLLER")


def test_voters_as_registered_have_the_registered_endpoint_of_the_recorded_listener() -> None:
    other = Endpoint(listener="REPLICA", host="r1.test", port=9999)
    recorded = (replace(HERE[0], endpoints=(*HERE[0].endpoints, other)), *HERE[1:])
    moved = replace(endpoint(1, "moved.test", 9095), listener="controller")
    registered = situation().controllers[NodeId(1)]
    controllers = {NodeId(1): replace(registered, endpoints=(other, moved))}

    first, *others = registered_voters(recorded, controllers)

    assert first.endpoints == (endpoint(1, "moved.test", 9095), other)
    assert others == [*HERE[1:]], "without a registration they stay as recorded"
    none_of_it = {NodeId(1): replace(registered, endpoints=(other,))}
    assert registered_voters(recorded, none_of_it) == recorded


@pytest.mark.parametrize("host", ["c1.test", "C1.TEST"])
def test_two_voters_at_one_address_are_refused_as_a_typo(host: str) -> None:
    items = [f"{node}@{host if node == 3 else f'c{node}.test'}:9093:{key(node).directory_id}" for node in (1, 2, 3)]
    same = r"have the address [cC]1\.(test|TEST):9093: "
    with pytest.raises(ValueError, match=rf"^controllers 1 and 3 both {same}"):
        parse_controllers(",".join(items), "CONTROLLER")
    with pytest.raises(ValueError, match=rf"^controllers 3 and 1 both {same}"):
        parse_controllers(",".join(reversed(items)), "CONTROLLER")


def test_the_list_has_the_endpoint_that_voters_dial_of_several() -> None:
    other = Endpoint(listener="SECURE", host="c1.secure.test", port=9094)

    assert initial_controllers([replace(HERE[0], endpoints=(*HERE[0].endpoints, other)), *HERE[1:]]) == LIST
    assert initial_controllers(reversed(HERE)) == LIST, "by node id"
    assert initial_controllers([replace(HERE[0], endpoints=()), *HERE[1:]]) is None, "no list of some voters"
    assert initial_controllers([replace(HERE[0], key=ReplicaKey(id=NodeId(1))), *HERE[1:]]) is None, (
        "nor without a disk"
    )


def test_difference_is_printed_as_in_the_kip() -> None:
    same, moved = compare(HERE, HERE), compare(HERE, moved_voters(1, 3, host="c.new-domain.com", port=9095))

    assert (same.outcome, moved.outcome) == (OverrideOutcome.NO_CHANGE, OverrideOutcome.PASSED)
    assert str(moved) == (
        "VoterSetDiff{hasVoterIdChanges=false, hasDirectoryIdChanges=false, "
        "endpointChanges={1=c.new-domain.com:9095, 3=c.new-domain.com:9095}}"
    )
    other_disk = (*HERE[:2], Voter(key=key(3, "other"), endpoints=(endpoint(3),)))
    assert str(compare(HERE, other_disk)) == (
        "VoterSetDiff{hasVoterIdChanges=false, hasDirectoryIdChanges=true, endpointChanges={}}"
    )
    fourth = Voter(key=key(4), endpoints=(endpoint(4),))
    for others in (HERE[:2], (*HERE[:2], fourth), (*HERE, fourth)):
        assert str(compare(HERE, others)) == (
            "VoterSetDiff{hasVoterIdChanges=true, hasDirectoryIdChanges=false, endpointChanges={}}"
        )
    assert str(compare(HERE, moved_voters(2, host="c2.test", port=9095))).endswith("{2=c2.test:9095}}"), "a port only"


def test_only_the_controller_listener_is_compared_and_lost_listeners_are_named() -> None:
    other = Endpoint(listener="REPLICA", host="r1.test", port=9999)
    both = (replace(HERE[0], endpoints=(*HERE[0].endpoints, other)), *HERE[1:])

    change = compare(both, HERE)

    assert change.outcome is OverrideOutcome.NO_CHANGE, "the other listener is not compared"
    assert change.lost_listeners == {NodeId(1): (other,)}
    assert compare(HERE, HERE).lost_listeners == {}
    first = (replace(HERE[0], endpoints=(other, *HERE[0].endpoints)), *HERE[1:])
    assert compare(first, HERE).lost_listeners == {NodeId(1): (other,)}, "in any order"
    lower = (Endpoint(listener="controller", host="c1.test", port=9093),)
    assert compare((replace(HERE[0], endpoints=lower), *HERE[1:]), HERE).outcome is OverrideOutcome.NO_CHANGE


def test_voter_set_is_printed_as_in_the_kip() -> None:
    directory = key(1).directory_id
    assert voter_set_text(HERE[:1]) == (
        f"VoterSet(voters=[VoterNode(voterKey=ReplicaKey(id=1, directoryId={directory}), "
        "listeners=Endpoints(CONTROLLER://c1.test:9093), "
        "supportedKRaftVersion=SupportedVersionRange[min_version:0, max_version:1])])"
    )
    older = replace(HERE[0], kraft_versions=FeatureRange(name="kraft.version", lowest=0, highest=0))
    assert "SupportedVersionRange[min_version:0, max_version:0]" in voter_set_text([older])
    assert directory is not None
    assert len(directory) == 22
    both = replace(HERE[0], endpoints=(*HERE[0].endpoints, Endpoint(listener="SECURE", host="::1", port=9094)))
    assert "listeners=Endpoints(CONTROLLER://c1.test:9093, SECURE://[::1]:9094), " in voter_set_text([both])
    nodes = [voter_set_text([one]).removeprefix("VoterSet(voters=[").removesuffix("])") for one in HERE]
    assert voter_set_text(reversed(HERE)) == f"VoterSet(voters=[{', '.join(nodes)}])"
