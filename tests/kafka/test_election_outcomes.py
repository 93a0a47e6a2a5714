"""`kraftwatch what-if` against real quorums: the prediction before a restart equals the outcome after it."""

from typing import Any

import pytest

from deploy.lab.jars import KAFKA_VERSION
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.election_prediction import (
    elects_a_leader,
    predict_from_disks,
    predict_from_queries,
    stop_controllers,
)

pytestmark = pytest.mark.lab
CASES = [(KAFKA_VERSION, voters, moved) for voters in (3, 4, 5) for moved in range(1, voters + 1)]
CASES += [("3.9.2", 3, moved) for moved in (1, 2, 3)]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "voters", "moved"), CASES)
def test_prediction_equals_the_outcome(lab: MakeLab, version: str, voters: int, moved: int) -> None:
    quorum = lab(controllers=voters, brokers=0, version=version)
    nodes = quorum.controllers[:moved]
    stop_controllers(quorum, nodes)
    quorum.move_endpoint(*nodes)

    predicted = predict_from_disks(quorum, nodes)

    assert predicted["electable"] == elects_a_leader(quorum), predicted


@pytest.mark.long
@pytest.mark.timeout(300)
def test_voters_cannot_follow_a_leader_whose_name_is_gone(lab: MakeLab) -> None:
    """They vote for it, and its followers cannot fetch at the name that it announces."""
    quorum = lab(controllers=3, brokers=0, named=True)
    names = [quorum.node(node).endpoint.rpartition(":")[0] for node in quorum.followers]
    quorum.names.drop(*names)

    def not_electable() -> dict[str, Any]:
        predicted = predict_from_queries(quorum)
        assert predicted["electable"] is False, predicted
        return predicted

    eventually(not_electable, within_s=60)
    quorum.kill(*quorum.controllers)

    assert not elects_a_leader(quorum)
    quorum.names.add(*names)
    quorum.await_leader(*quorum.controllers)
