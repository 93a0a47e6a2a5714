"""What `kraftwatch what-if` predicts for the disks of a stopped lab."""

import json
from collections.abc import Collection
from typing import Any

from typer.testing import CliRunner

from streaming.cli import app
from tests.lab import Lab

_NOWHERE = "127.0.0.1:1"
_ATTEMPTS = 5


def predict_from_disks(quorum: Lab, moved: Collection[int], *, at: str | None = None) -> dict[str, Any]:
    """The prediction after these controllers moved, to where they are configured now or to `at`."""
    disks = [part for node in quorum.controllers for part in ("--log-dir", str(quorum.node(node).data))]
    moves = [part for node in moved for part in ("--move", f"{node}={at or quorum.node(node).endpoint}")]
    ended = CliRunner().invoke(app, ["what-if", *disks, *moves, "--json"])
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.exit_code == {True: 0, False: 2, None: 3}[found["electable"]]
    return found


def stop_controllers(quorum: Lab, moved: Collection[int]) -> None:
    """Stops the controllers so that the outcome is certain if these are moved then.

    Controllers that are stopped at once may elect a leader of which not all hear. Then they are started and stopped
    again: whether a leader is elected after the move would depend on which one starts first.
    """
    running = [node for node in quorum.controllers if quorum.node(node).running]
    for _ in range(_ATTEMPTS):
        quorum.stop(*running)
        if predict_from_disks(quorum, moved, at=_NOWHERE)["electable"] is not None:
            return
        quorum.start(*running)
        quorum.await_state(lambda state: state.leader_id in running, what="a leader")
    raise AssertionError(f"the last leader was unknown to a controller after each of {_ATTEMPTS} stops")
