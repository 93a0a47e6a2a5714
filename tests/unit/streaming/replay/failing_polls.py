"""A bug of the replay: applying some polls raises after they were applied."""

from collections.abc import Callable

import pytest

from rules.model.replica import Poll
from streaming.replay.machine import Machine


def fail_polls(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Machine, Poll], bool]) -> None:
    """Makes each poll raise for which `fails` returns true."""
    applied = Machine._apply_poll

    def raising(machine: Machine, event: Poll) -> None:
        applied(machine, event)
        if fails(machine, event):
            raise TypeError("a bug")

    monkeypatch.setattr(Machine, "_apply_poll", raising)
