"""connect(): a local failure is not reported as a failure of the node."""

import errno
import os
import socket

import pytest

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.transport import connect
from rules.model.monitoring import Reason


def test_missing_file_descriptor_is_reported_as_unreachable(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(*arguments: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def try_connect() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", no_descriptor)
            await connect(loop, ["127.0.0.1"], 9, deadline=loop.now() + 1)

    with pytest.raises(ObservationError) as failed:
        loop.run(try_connect)
    assert failed.value.reason is Reason.UNREACHABLE
    assert "EMFILE" in failed.value.detail
