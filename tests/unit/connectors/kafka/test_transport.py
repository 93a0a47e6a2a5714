"""Connections to addresses."""

import pytest

from connectors.kafka.event_loop import EventLoop
from connectors.kafka.transport import connect
from rules.model.monitoring import Reason
from tests.unit.connectors.observation_failure import failure_of


@pytest.mark.parametrize("address", ["fe80::1", "fe80::1%no-such-one"])
def test_a_link_local_address_without_an_interface_of_this_machine_is_unreachable(
    loop: EventLoop, address: str
) -> None:
    failed = failure_of(lambda: loop.run(lambda: connect(loop, [address], 9093, deadline=loop.now() + 10)))
    assert (failed.reason, f"[{address}]:9093" in failed.detail) == (Reason.UNREACHABLE, True)
