"""A broker whose registration is stuck is restarted once; a broker that may still register is not."""

from pathlib import Path
from typing import Any

import pytest

from deploy.lab import kafka_requests
from deploy.lab.node import Node

UNSENT = "INFO Unable to register the broker because the RPC got timed out before it could be sent. (org.apache…)\n"


class FakeBroker(Node):
    """Accepts requests after its second start; the test writes its log."""

    starts = 0

    @property
    def running(self) -> bool:
        """True: the process exists."""
        return True

    def accepts_requests(self, connect: kafka_requests.Connect) -> bool:
        """True after the second start."""
        return self.starts > 1

    def running_process(self) -> Any:
        """Returns this object, which has `kill`."""
        return self

    def kill(self) -> None:
        """Does nothing."""

    def launch(self, jvm: Any, *, supervised: bool) -> None:
        """Counts the starts."""
        type(self).starts += 1


def test_broker_with_a_stuck_registration_is_restarted(tmp_path: Path) -> None:
    FakeBroker.starts = 1
    node = FakeBroker(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.parent.mkdir(parents=True, exist_ok=True)
    node.log_file.write_text("INFO begins\n" + 8 * UNSENT)
    connect: Any = None
    jvm: Any = None

    node.wait_for_start(jvm, connect, supervised=True, timeout_s=5)

    assert FakeBroker.starts == 2


@pytest.mark.parametrize("log", ["", 7 * UNSENT, 8 * UNSENT + "INFO registered\n"])
def test_broker_that_may_still_register_is_not_restarted(tmp_path: Path, log: str) -> None:
    FakeBroker.starts = 1
    node = FakeBroker(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.parent.mkdir(parents=True, exist_ok=True)
    node.log_file.write_text(log)
    connect: Any = None
    jvm: Any = None

    with pytest.raises(Exception, match="waiting for node 101"):
        node.wait_for_start(jvm, connect, supervised=True, timeout_s=0.2)
    assert FakeBroker.starts == 1
