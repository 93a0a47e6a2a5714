"""`kraftwatch what-if` against real quorums: the prediction before a restart equals the outcome after it."""

import pytest

from deploy.lab.jars import KAFKA_VERSION
from tests.kafka.conftest import MakeLab
from tests.kafka.election_prediction import elects_a_leader, predict_from_disks, stop_controllers

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
