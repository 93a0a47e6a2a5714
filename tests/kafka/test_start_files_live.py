"""A real controller is started with each state of each file beside its log."""

import shutil
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.unit.connectors.logdir.start_states import START_STATES

pytestmark = [pytest.mark.lab, pytest.mark.live]
_STARTED = "Kafka Server started"


def test_kafka_ends_with_the_states_with_which_it_is_said_to_end(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=1, brokers=0)
    node = quorum.node(quorum.leader)
    quorum.stop(node.id)
    sound = shutil.copytree(node.data, tmp_path / "sound")
    ended = {}
    for state in START_STATES:
        shutil.rmtree(node.data)
        shutil.copytree(sound, node.data)
        state.put(node.data)
        node.log_file.unlink()
        quorum.start(node.id, wait=False)
        eventually(lambda: not node.running or _STARTED in node.log_tail(10_000), within_s=60)
        ended[state.file, state.name] = not node.running
        if node.running:
            quorum.kill(node.id)

    assert ended == {(state.file, state.name): state.ends for state in START_STATES}
