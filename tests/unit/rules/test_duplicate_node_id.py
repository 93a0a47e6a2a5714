"""duplicate-node-id: two processes with one node.id, by the log and by the polls; and what is only a restart."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import BrokerRegistered, ControllerRegistered
from rules.model.history import NodeKind
from rules.model.identifiers import ReplicaKey
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    findings,
    healthy,
    observer,
    present,
    registered_twice,
    voter_not_fetching,
    with_poll,
)
from tests.unit.streaming.replay.log_script import LogScript, again, apply, machine

RULE = "duplicate-node-id"


def lines(quorum: Quorum) -> list[str]:
    return [f"{one.severity} {one.subject}" for one in findings(quorum, RULE)]


def read(script: LogScript) -> Quorum:
    return apply(machine(), [script.read()])


def registered(script: LogScript, role: str) -> ControllerRegistered | BrokerRegistered:
    """Writes the registration of a new process of node 2; the controller unfences a broker."""
    if role == "controller":
        return script.controller(2)
    registration = script.broker(2)
    script.broker_change(2, fenced=False)
    return registration


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_a_process_that_registers_again_after_its_successor_is_a_second_one(node: str) -> None:
    script = LogScript()
    script.leader(1)
    first = registered(script, node)
    script.now_ms += 5_000
    second = registered(script, node)
    replay = machine()
    assert apply(replay, [script.read()]).history.double_registrations == ()
    # The job is started again in between.
    replay = again(replay.to_bytes())
    for one in (first, second, first):
        script.now_ms += 5_000
        script.write(replace(one, at=script.at()))
        script.broker_change(2, fenced=False)
    history = apply(replay, [script.read()]).history

    (found,) = history.double_registrations
    assert (found.kind, found.id, found.returns) == (NodeKind(node), 2, 3)
    assert (found.endpoints, found.other_endpoints) == (first.endpoints, second.endpoints)
    assert found.timestamp_ms - found.first_timestamp_ms == 10_000
    # They alternate, and none of them started again.
    starts = [one.id for one in history.starts] if node == "controller" else []
    assert starts == ([2, 2] if node == "controller" else [])


def test_a_controller_and_a_broker_of_one_id_that_are_doubled_are_two_entries() -> None:
    script = LogScript()
    script.leader(1)
    pairs = [[registered(script, role) for _ in range(2)] for role in ("controller", "broker")]
    for pair in (*pairs, *pairs):
        for one in pair:
            script.write(replace(one, at=script.at()))
            script.broker_change(2, fenced=False)
    found = read(script).history.double_registrations
    assert [(one.kind, one.id, one.returns) for one in found] == [
        (NodeKind.CONTROLLER, 2, 4),
        (NodeKind.BROKER, 2, 4),
    ]


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (healthy(), []),
        (registered_twice(healthy(), 2), ["critical node 2"]),
        (registered_twice(healthy(), 101, kind=NodeKind.BROKER), ["warning node 101"]),
        (registered_twice(healthy(), 2, ago_ms=300_300), ["critical node 2"]),
        (registered_twice(healthy(), 2, ago_ms=300_301), []),
        # Another directory fetches beside the voter, or beside a broker.
        (observer(healthy(), 2, directory="copyOf2"), ["critical node 2"]),
        (observer(healthy(), 101, directory="copyOf101"), ["warning node 101"]),
        # A replaced disk: the voter does not fetch.
        (observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2"), []),
    ],
)
def test_a_node_id_of_two_processes_is_one_finding(quorum: Quorum, expected: list[str]) -> None:
    assert lines(quorum) == expected


def test_a_row_without_a_directory_is_no_second_process() -> None:
    """A node that answers in an older version of the request has none."""
    quorum = healthy()
    (own,) = (row for row in present(quorum.poll).voters if row.key.id == 2)
    without = replace(own, key=ReplicaKey(id=own.key.id))
    assert lines(with_poll(quorum, observers=(*present(quorum.poll).observers, without))) == []
