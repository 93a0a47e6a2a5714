"""connect(): a local failure is not reported as a failure of the node."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.transport import connect
from rules.model.monitoring import Reason


@pytest.fixture
def no_descriptor_left(loop: EventLoop) -> Iterator[None]:
    """Takes every descriptor up to a lowered limit; the loop has its own before."""
    assert loop.now() > 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        first = taken.enter_context(socket.socket())
        resource.setrlimit(resource.RLIMIT_NOFILE, (first.fileno() + 20, hard))
        try:
            while True:
                taken.enter_context(socket.socket())
        except OSError:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("no_descriptor_left")
def test_missing_file_descriptor_is_named_with_its_fix(loop: EventLoop) -> None:
    with pytest.raises(ObservationError) as problem:
        loop.run(lambda: connect(loop, ("127.0.0.1",), 9093, deadline=loop.now() + 5))
    assert problem.value.reason is Reason.TOO_FEW_DESCRIPTORS
    assert problem.value.detail == (
        "127.0.0.1:9093: this process has no file descriptor left for a socket: raise its limit "
        "(ulimit -n, LimitNOFILE) (EMFILE)"
    )
