"""`kraftwatch what-if` on the disks of a real, stopped quorum: text, JSON, exit codes, and refused options."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.program import kraftwatch, log_dirs
from tests.unit.connectors.logdir.log_dirs import MOVED, noops
from tests.unit.connectors.metadata.metadata_bytes import batch_of, noop, record

MOVES = [part for node in (1, 2, 3) for part in ("--move", f"{node}=c{node}.new:9093")]


def what_if(stopped: Path, *more: str) -> Result:
    return kraftwatch("what-if", *log_dirs(stopped, 1, 2, 3), *more)


def votes(ended: Result) -> dict[int, int]:
    return {one["node_id"]: one["votes"] for one in json.loads(ended.stdout)["candidates"]}


@pytest.mark.parametrize(
    ("change", "exit_code", "expected"),
    [
        ((), 0, {1: 3, 2: 3, 3: 1}),
        (("--lose", "1"), 0, {2: 2, 3: 1}),
        (("--lose", "1", "--lose", "2"), 2, {3: 1}),
        (("--move", "1=c1.new:9093"), 0, {1: 3, 2: 2, 3: 1}),
        (("--move", "1=c1.new:9093", "--move", "2=c2.new:9093"), 0, {1: 2, 2: 2, 3: 1}),
        (("--move", "1=c1.new:1", "--move", "2=c2.new:1", "--move", "3=c3.new:1"), 2, {1: 1, 2: 1, 3: 1}),
    ],
)
def test_prediction_for_three_disks(
    stopped: Path, change: tuple[str, ...], exit_code: int, expected: dict[int, int]
) -> None:
    ended = what_if(stopped, "--json", *change)

    assert ended.exit_code == exit_code, ended.output
    output = json.loads(ended.stdout)
    assert (output["electable"], output["majority"], output["assumed"]) == (exit_code == 0, 2, [])
    assert votes(ended) == expected


def test_text_says_who_can_be_elected_and_what_costs_votes(stopped: Path) -> None:
    ended = what_if(stopped, "--move", "2=[::1]:9093")

    output = " ".join(ended.stdout.split())
    assert "ELECTABLE" in output
    assert "1 and 2 can be elected" in output
    assert "controller 3: 1 vote of 2 needed (not of 1: its log is ahead; not of 2: its recorded endpoint" in output


def test_rescued_node_asks_the_new_endpoints(stopped: Path) -> None:
    """Each node uses the voter set of its own log: one rescued node of three can be elected."""
    assert what_if(stopped, *MOVES, "--json").exit_code == 2
    applied = kraftwatch("rescue", "apply", "--log-dir", stopped / "node-1", "--initial-controllers", MOVED, "--yes")
    assert applied.exit_code == 0

    ended = what_if(stopped, *MOVES, "--json")

    assert ended.exit_code == 0
    assert votes(ended) == {1: 3, 2: 1, 3: 1}


def write_election(stopped: Path, node: int, epoch: int, leader: int) -> None:
    """Writes a controller's quorum-state as it was when the controller stopped."""
    state = {"leaderId": leader, "leaderEpoch": epoch, "votedId": -1, "data_version": 1}
    (stopped / f"node-{node}" / "__cluster_metadata-0" / "quorum-state").write_text(json.dumps(state))


def test_newest_epoch_of_a_log_counts_before_its_end(stopped: Path) -> None:
    segment = stopped / "node-3" / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes() + noops(57, 1, epoch=2))

    assert votes(what_if(stopped, "--json")) == {1: 2, 2: 2, 3: 3}


def test_leader_that_another_voter_does_not_know_makes_the_outcome_unknown(stopped: Path) -> None:
    """Seen on Kafka 3.9.2 whose controllers were stopped at once: controller 2 was elected, 1 did not hear of it."""
    for node, epoch, leader in ((1, 1, 1), (2, 2, 2), (3, 2, 2)):
        write_election(stopped, node, epoch, leader)

    ended, as_json = (what_if(stopped, *MOVES, *more) for more in ((), ("--json",)))

    assert (ended.exit_code, as_json.exit_code) == (3, 3), ended.output
    output = " ".join(ended.stdout.split())
    assert "UNKNOWN" in output
    assert "controller 2 led epoch 2 when it stopped, and controller 1 does not know it" in output
    found = json.loads(as_json.stdout)
    assert found["electable"] is None
    assert "controller 2 led epoch 2" in found["unknown"]
    assert {one["node_id"]: one["may_reach"] for one in found["candidates"]} == {1: [2], 2: [], 3: []}


@pytest.mark.parametrize("known", [(2, 2, 2), (1, 2, 2)], ids=["all know it", "only a voter behind it does not"])
def test_leader_of_the_last_epoch_does_not_help_a_voter_that_knows_it_or_is_behind(
    stopped: Path, known: tuple[int, ...]
) -> None:
    """Controller 3 is behind 1 and 2: these do not vote for it, even if it finds them."""
    for node, epoch in zip((3, 1, 2), known, strict=True):
        write_election(stopped, node, epoch, 2 if epoch == 2 else 1)

    ended = what_if(stopped, *MOVES, "--json")

    assert (ended.exit_code, json.loads(ended.stdout)["unknown"]) == (2, None)


def test_cluster_that_does_not_answer_is_not_called_static() -> None:
    ended = kraftwatch("what-if", "--cluster", "prod=127.0.0.1:1", "--timeout", "1s", "--lose", "3")

    assert ended.exit_code == 3
    assert ended.stdout.startswith(" UNKNOWN  prod: no leader answered: kraftwatch doctor, with the same options, ")


def test_prediction_is_unknown_if_a_log_holds_a_compressed_batch(stopped: Path) -> None:
    """Kafka reads it and what follows, so this log may be ahead of the others."""
    log = stopped / "node-3" / "__cluster_metadata-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + batch_of(gzip.compress(record(noop(), 0)), 1, base_offset=57, attributes=1))

    ended = what_if(stopped)

    assert ended.exit_code == 3
    assert "where the log ends is unknown of 3 (00000000000000000000.log: compressed with gzip" in ended.stdout
