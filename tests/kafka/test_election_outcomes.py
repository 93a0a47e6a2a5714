"""`kraftwatch what-if` against real quorums: the prediction before a restart equals the outcome after it."""

import pytest
from typer.testing import CliRunner

from deploy.lab import LabError
from deploy.lab.jars import KAFKA_VERSION
from streaming.cli import app
from tests.kafka.conftest import MakeLab
from tests.kafka.election_prediction import predict_from_disks, stop_controllers
from tests.lab import Lab

pytestmark = pytest.mark.lab
WATCHED_S = 25
"""How long an election may take, or a quorum counts as dead."""
CASES = [(KAFKA_VERSION, voters, moved) for voters in (3, 4, 5) for moved in range(1, voters + 1)]
CASES += [("3.9.2", 3, moved) for moved in (1, 2, 3)]


def test_live_quorum_survives_a_restart_and_one_lost_voter_but_not_two(lab: MakeLab) -> None:
    quorum = lab(controllers=3, brokers=0)
    leader = quorum.await_state(lambda state: state.leader_id in quorum.controllers, what="a leader").leader_id
    others = [node for node in quorum.controllers if node != leader]

    assert predict(quorum) == 0
    assert predict(quorum, "--lose", str(leader)) == 0
    assert predict(quorum, *(part for node in others for part in ("--lose", str(node)))) == 2
    moves = [part for node in quorum.controllers for part in ("--move", f"{node}=127.0.0.1:{node}")]
    assert predict(quorum, *moves) == 2
    assert predict(quorum, "--restart", str(others[0])) == 0


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


def elects_a_leader(quorum: Lab) -> bool:
    quorum.start(*quorum.controllers, wait=False)
    try:
        quorum.await_state(lambda state: state.leader_id in quorum.controllers, what="a leader", timeout_s=WATCHED_S)
    except LabError:
        return False
    return True


def predict(quorum: Lab, *change: str) -> int:
    """The exit code for the running quorum."""
    cluster = f"lab={','.join(quorum.bootstrap)}"
    return CliRunner().invoke(app, ["what-if", "--cluster", cluster, *change]).exit_code
