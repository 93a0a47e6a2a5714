"""Connecting: what goes wrong on our own side is not the other side's fault."""

import errno
import os
import socket

import pytest

from connectors.errors import UnseenError
from connectors.kafka.event_loop import Loop
from connectors.kafka.transport import connect
from rules.model.monitoring import Reason


def test_no_file_descriptor_left_says_nothing_of_the_node(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def look() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", full)
            await connect(loop, ["127.0.0.1"], 9, deadline=loop.now() + 1)

    with pytest.raises(UnseenError) as failed:
        loop.run(look)
    assert failed.value.reason is Reason.UNREACHABLE
    assert "EMFILE" in failed.value.detail
