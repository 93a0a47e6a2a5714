"""damaged_logs: what a situation cannot show, as it does not read a snapshot."""

from dataclasses import replace

from rules.facts.damaged_log import damaged_logs
from rules.model.identifiers import NodeId
from tests.situation.commands import situation


def test_a_registration_of_a_snapshot_does_not_show_that_the_controller_started_since() -> None:
    quorum = situation("damage-log 3", "registers 3 since 10s incarnation new")
    assert not damaged_logs(quorum)

    registration = quorum.controllers[NodeId(3)]
    in_snapshot = replace(registration, at=replace(registration.at, snapshot=True))
    assert damaged_logs(replace(quorum, controllers={**quorum.controllers, NodeId(3): in_snapshot}))
