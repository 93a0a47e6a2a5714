"""Sequences in the topic grow over restarts, new folders and moves of a cluster between relays."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.relay import relay_positions
from connectors.relay.relay_message import Baseline
from connectors.relay.relay_positions import restated, with_clusters

NOW_MS = 1_800_000_000_000


def test_a_relay_with_a_new_folder_continues_above_the_former_one() -> None:
    former = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)["a"]
    new = with_clusters({}, ["a"], end=0, now_ms=NOW_MS + 60_000)["a"]

    assert former.sequence(1_000_000) < new.sequence(0)


def test_a_restart_keeps_the_numbering() -> None:
    first = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)

    assert with_clusters(first, ["a"], end=500, now_ms=NOW_MS + 60_000) == first


def test_a_cluster_that_returns_to_a_relay_is_numbered_above_the_relay_between() -> None:
    mine = with_clusters({}, ["a", "b"], end=0, now_ms=NOW_MS)
    without = with_clusters(mine, ["b"], end=100, now_ms=NOW_MS + 10_000)
    theirs = with_clusters({}, ["a"], end=0, now_ms=NOW_MS + 10_000)["a"]
    again = with_clusters(without, ["a", "b"], end=200, now_ms=NOW_MS + 20_000)

    assert theirs.sequence(5_000) < again["a"].sequence(200)
    assert again["b"] == mine["b"]


def test_rows_before_a_restatement_belong_to_the_former_baseline() -> None:
    first = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)
    second = restated(first, end=70, now_ms=NOW_MS + 5)["a"]
    base = second.base

    assert second.baseline_of(base + 69) == Baseline(sequence=base, at_ms=NOW_MS)
    assert second.baseline_of(base + 70) == Baseline(sequence=base + 70, at_ms=NOW_MS + 5)


def test_stored_numberings_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "relay.json"
    assert relay_positions.load(path) == {}
    numberings = restated(with_clusters({}, ["a"], end=3, now_ms=NOW_MS), end=9, now_ms=NOW_MS + 1)

    relay_positions.save(path, numberings)

    assert relay_positions.load(path) == numberings
    path.write_text('{"clusters": 1}')
    with pytest.raises(UsageError, match=r"relay\.json cannot be read: delete it"):
        relay_positions.load(path)
