"""The log directories of three controllers and a broker of a real Kafka: what each disk shows; two have a snapshot."""

from pathlib import Path
from typing import Any

import pytest

from rules.evaluate import thresholds_for
from streaming.query.from_log_dir import replay_log_dir
from streaming.query.recording import recorded_state
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import status_json
from streaming.status.status_tables import log_dir_lines
from tests.description.describe import describe
from tests.golden_file import assert_golden
from tests.present import present
from tests.unit.connectors.logdir.log_dirs import stopped_quorum

GOLDENS = Path(__file__).parent / "log_dirs"
ELECTED_MS = 1_795_163_023_791
"""The time of the first record."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_quorum(tmp_path_factory.mktemp("stopped"))


@pytest.mark.parametrize("node", [1, 2, 3, 101])
def test_quorum_and_files_of_a_log_directory(node: int, stopped: Path) -> None:
    replayed = replay_log_dir(stopped / f"node-{node}")
    shown = cluster_status(recorded_state(replayed, thresholds_for({})))
    printed = [f"{name}: {value}" for name, value in log_dir_lines(present(shown.log_dir))]
    lines = [describe(replayed.machine.quorum(), start_ms=ELECTED_MS), *printed, *shown.missing]

    assert_golden(GOLDENS / f"node-{node}.txt", "\n".join(lines).replace(str(stopped), "FOLDER"))


def test_json_of_a_log_directory_has_its_files_and_every_voter_set(stopped: Path) -> None:
    state = recorded_state(replay_log_dir(stopped / "node-2"), thresholds_for({}))
    fields: dict[str, Any] = status_json(cluster_status(state))
    shown = fields["log_dir"]
    voter_sets = shown.pop("voter_sets")

    assert (fields["source"], fields["electable"], fields["voters_fetching"]) == ("log-dir", None, None)
    assert shown == {
        "folder": str(stopped / "node-2" / "__cluster_metadata-0"),
        "meta_properties": {
            "version": 1,
            "cluster_id": "vUKL8329QBu98AEWDcwiEw",
            "node_id": 2,
            "directory_id": "wPvHPGZoRSmdGaO9smPpMQ",
        },
        "election": {
            "version": 1,
            "leader_epoch": 1,
            "leader_id": 2,
            "voted": None,
            "static_voters": [],
        },
        "snapshot": "00000000000000000037-0000000001.checkpoint",
        "committed_below": 37,
        "first_offset": 37,
        "end_offset": 61,
        "epoch": 1,
        "damaged": [],
        "whole": True,
        "start_problems": [],
    }
    recorded = ("offset", "leader_epoch", "timestamp")
    assert [[*(one["voters"][name] for name in recorded), one["file"], one["in_snapshot"]] for one in voter_sets] == [
        [-1, 0, None, "00000000000000000000-0000000000.checkpoint", True],
        [2, 1, "2026-11-20T08:23:43.791Z", "00000000000000000000.log", False],
        [36, 1, "2026-11-20T08:23:50.460Z", "00000000000000000000.log", False],
        [36, 1, None, "00000000000000000037-0000000001.checkpoint", True],
    ]
    keys = [voter["key"] for voter in voter_sets[3]["voters"]["voters"]]
    assert keys == [{name: one[name] for name in keys[0]} for one in fields["committed_voters"]["voters"]]


def test_json_of_a_log_directory_has_the_vote_of_its_node(stopped: Path) -> None:
    state = recorded_state(replay_log_dir(stopped / "node-1"), thresholds_for({}))

    fields: dict[str, Any] = status_json(cluster_status(state))

    assert fields["log_dir"]["election"]["voted"] == {"id": 2, "directory_id": "wPvHPGZoRSmdGaO9smPpMQ"}
