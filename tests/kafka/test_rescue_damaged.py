"""`kraftwatch rescue plan` for a quorum with a damaged log, and its steps on real controllers."""

import json
from typing import Any

import pytest

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab.node import Node
from tests.cli.program import kraftwatch
from tests.kafka.conftest import MakeLab
from tests.kafka.plan_follower import log_dirs
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_a_damaged_log_is_started_after_the_others_have_a_leader(lab: MakeLab, static: bool) -> None:
    """Of the former leader: the others hold what follows the damage."""
    quorum = lab(controllers=3, brokers=0, static=static)
    damaged, others = quorum.leader, sorted(quorum.followers)
    quorum.await_state(lambda state: state.high_watermark > 20, what="some committed batches")
    quorum.stop(*quorum.controllers)
    offset = damage_length(quorum.node(damaged))

    planned = plan(quorum, *quorum.controllers)
    alone = plan(quorum, damaged, others[0])

    assert planned["static"] is static
    assert [int(key.partition("-")[0]) for key in planned["startable"]] == others
    first, not_yet, _, then, _ = planned["steps"]
    assert first == f"# No rescue is needed: start controllers {others[0]} and {others[1]}, and wait for a leader"
    assert not_yet.startswith(f"# Do not start controller {damaged} with them: its log is damaged at offset {offset} (")
    assert f"start controller {damaged}: its start cuts the log off at offset {offset}" in then
    assert (alone["startable"], alone["damaged_voters"]) == ([], planned["damaged_voters"])
    assert alone["steps"][1].startswith(f"# Do not start controller {damaged}: a start cuts off what follows")

    quorum.start(*others)
    quorum.await_leader(*others)
    quorum.start(damaged)
    quorum.await_state(lambda state: all(each.caught_up for each in state.voters), what="all voters in sync")
    log = quorum.node(damaged).log_file.read_text(encoding="utf-8")
    assert f"Corruption found in segment 0, truncating to offset {offset}" in log


def plan(quorum: Lab, *nodes: int) -> dict[str, Any]:
    ended = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(quorum, *nodes), "--json")
    assert ended.exit_code == 0, ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def damage_length(node: Node) -> int:
    """Overwrites the length of a batch in the middle of a stopped node's metadata log; returns its offset."""
    segment = max(node.metadata_log.glob("*.log"))
    batches = [each for each in scan(segment.read_bytes()) if isinstance(each, RecordBatch)]
    batch = batches[len(batches) // 2]
    with segment.open("r+b") as file:
        file.seek(batch.position + 8)
        file.write(bytes(4))
    return batch.base_offset
