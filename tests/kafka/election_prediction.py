"""What `kraftwatch what-if` predicts for the disks of a stopped lab."""

import json
from collections.abc import Collection
from typing import Any

from deploy.lab import LabError
from tests.cli.program import kraftwatch
from tests.kafka.gatherer_run import NAME
from tests.lab import Lab

_NOWHERE = "127.0.0.1:1"
_ATTEMPTS = 5
_WATCHED_S = 25
"""How long an election may take, or a quorum counts as dead: the default election timeout is 1 s."""


def predict_from_disks(quorum: Lab, moved: Collection[int], *, at: str | None = None) -> dict[str, Any]:
    """The prediction after these controllers moved, to where they are configured now or to `at`."""
    disks = [part for node in quorum.controllers for part in ("--log-dir", str(quorum.node(node).data))]
    moves = [part for node in moved for part in ("--move", f"{node}={at or quorum.node(node).endpoint}")]
    ended = kraftwatch("what-if", *disks, *moves, "--json")
    found: dict[str, Any] = json.loads(ended.stdout)
    assert ended.exit_code == {True: 0, False: 2, None: 3}[found["electable"]]
    return found


def predict_from_queries(quorum: Lab) -> dict[str, Any]:
    """The prediction if all controllers of a running lab were restarted now."""
    cluster = ["--cluster", f"{NAME}={','.join(quorum.bootstrap)}", "--hosts-file", str(quorum.hosts_file)]
    found: dict[str, Any] = json.loads(kraftwatch("what-if", *cluster, "--json").stdout)
    return found


def elects_a_leader(quorum: Lab) -> bool:
    """Starts the controllers, and returns whether they elect a leader, which a majority follows."""
    quorum.start(*quorum.controllers, wait=False)
    try:
        quorum.await_state(lambda state: state.high_watermark >= 0, what="a leader", timeout_s=_WATCHED_S)
    except LabError:
        return False
    return True


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
        quorum.await_leader(*running)
    raise AssertionError(f"the last leader was unknown to a controller after each of {_ATTEMPTS} stops")
