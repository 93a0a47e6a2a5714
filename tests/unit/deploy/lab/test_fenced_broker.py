"""A broker that waits for a leader that never was one: started once more, and no other."""

from pathlib import Path
from typing import Any

import pytest

from deploy.lab import kafka_requests
from deploy.lab.node import Node

UNSENT = "INFO Unable to register the broker because the RPC got timed out before it could be sent. (org.apache…)\n"


class Broker(Node):
    """It answers from its second start on, and says in its log what it is given to say at the first."""

    starts = 0

    @property
    def running(self) -> bool:
        """As far as this is about."""
        return True

    def answers(self, dial: kafka_requests.Dial) -> bool:
        """From the second start on."""
        return self.starts > 1

    def running_program(self) -> Any:
        """Nothing."""
        return self

    def kill(self) -> None:
        """Nothing."""

    def launch(self, jvm: Any, *, held: bool) -> None:
        """Counts."""
        type(self).starts += 1


def test_it_is_started_once_more(tmp_path: Path) -> None:
    Broker.starts = 1
    node = Broker(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.parent.mkdir(parents=True, exist_ok=True)
    node.log_file.write_text("INFO begins\n" + 8 * UNSENT)
    dial: Any = None
    jvm: Any = None

    node.await_start(jvm, dial, held=True, timeout_s=5)

    assert Broker.starts == 2


@pytest.mark.parametrize("log", ["", 7 * UNSENT, 8 * UNSENT + "INFO registered\n"])
def test_one_that_may_still_come_is_waited_for(tmp_path: Path, log: str) -> None:
    Broker.starts = 1
    node = Broker(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.parent.mkdir(parents=True, exist_ok=True)
    node.log_file.write_text(log)
    dial: Any = None
    jvm: Any = None

    with pytest.raises(Exception, match="in vain for node 101"):
        node.await_start(jvm, dial, held=True, timeout_s=0.2)
    assert Broker.starts == 1
