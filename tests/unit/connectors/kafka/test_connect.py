"""connect(): a local failure is not reported as a failure of the node."""

import pytest

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.transport import connect
from rules.model.monitoring import Reason
from tests.unit.connectors.kafka.descriptors import no_descriptor_left


def test_missing_file_descriptor_is_named_with_its_fix(loop: EventLoop) -> None:
    with no_descriptor_left(), pytest.raises(ObservationError) as problem:
        loop.run(lambda: connect(loop, ("127.0.0.1",), 9093, deadline=loop.now() + 5))
    assert problem.value.reason is Reason.TOO_FEW_DESCRIPTORS
    assert problem.value.detail == (
        "127.0.0.1:9093: this process has no file descriptor left for a socket: raise its limit "
        "(ulimit -n, LimitNOFILE) (EMFILE)"
    )
