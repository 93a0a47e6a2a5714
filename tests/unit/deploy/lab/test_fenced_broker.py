"""A broker whose registration is stuck is restarted once; a broker that may still register is not."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import LabError, kafka_requests
from deploy.lab.node import Node

UNSENT = "INFO Unable to register the broker because the RPC got timed out before it could be sent. (org.apache…)\n"


class FakeBroker(Node):
    """Accepts requests after its second start; the test writes its log."""

    starts = 0

    @property
    def running(self) -> bool:
        return True

    def accepts_requests(self, connect: kafka_requests.Connect) -> bool:
        return self.starts > 1

    def running_process(self) -> Any:
        return self

    def kill(self) -> None:
        """Does nothing."""

    def launch(self, jvm: Any, *, supervised: bool) -> None:
        type(self).starts += 1


@pytest.mark.parametrize(
    ("log", "starts"),
    [("INFO begins\n" + 8 * UNSENT, 2), ("", 1), (7 * UNSENT, 1), (8 * UNSENT + "INFO registered\n", 1)],
    ids=["stuck", "just started", "it may still register", "registered"],
)
def test_only_a_broker_with_a_stuck_registration_is_restarted(tmp_path: Path, log: str, starts: int) -> None:
    FakeBroker.starts = 1
    node = FakeBroker(id=101, folder=tmp_path, controller_port=None, broker_port=9092)
    node.log_file.parent.mkdir(parents=True, exist_ok=True)
    node.log_file.write_text(log)
    nothing: Any = None

    with nullcontext() if starts > 1 else pytest.raises(LabError, match="waiting for node 101"):
        node.wait_for_start(nothing, nothing, supervised=True, timeout_s=5 if starts > 1 else 0.2)

    assert FakeBroker.starts == starts
