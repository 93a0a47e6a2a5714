"""Sequences in the topic grow over restarts, new folders and moves of a cluster between relays."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.relay import relay_positions
from connectors.relay.relay_message import Baseline
from connectors.relay.relay_positions import TopicNumbering, restated, usable, with_clusters

NOW_MS = 1_800_000_000_000


def sequence(numbering: TopicNumbering, journal_sequence: int) -> int:
    numbered = numbering.numbered(journal_sequence)
    assert numbered is not None
    return numbered[0]


def test_a_relay_with_a_new_folder_continues_above_the_former_one() -> None:
    former = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)["a"]
    new = with_clusters({}, ["a"], end=0, now_ms=NOW_MS + 60_000)["a"]

    assert sequence(former, 1_000_000) < sequence(new, 0)


def test_a_restart_keeps_the_numbering() -> None:
    first = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)

    assert with_clusters(first, ["a"], end=500, now_ms=NOW_MS + 60_000) == first


def test_a_cluster_that_returns_to_a_relay_is_numbered_above_the_relay_between() -> None:
    mine = with_clusters({}, ["a", "b"], end=0, now_ms=NOW_MS)
    without = with_clusters(mine, ["b"], end=100, now_ms=NOW_MS + 10_000)
    theirs = with_clusters({}, ["a"], end=0, now_ms=NOW_MS + 10_000)["a"]
    again = with_clusters(without, ["a", "b"], end=200, now_ms=NOW_MS + 20_000)

    assert sequence(theirs, 5_000) < sequence(again["a"], 200)
    assert again["b"] == mine["b"]


def test_rows_before_a_restatement_belong_to_the_former_baseline() -> None:
    first = with_clusters({}, ["a"], end=3, now_ms=NOW_MS)
    second = restated(first, end=70, now_ms=NOW_MS + 5)["a"]
    base, again = NOW_MS * 1000, (NOW_MS + 5) * 1000

    assert second.numbered(2) is None, "it was written before the first baseline"
    assert second.numbered(69) == (base + 66, Baseline(sequence=base, at_ms=NOW_MS))
    assert second.numbered(70) == (again, Baseline(sequence=again, at_ms=NOW_MS + 5))


def test_a_restatement_never_goes_back() -> None:
    first = with_clusters({}, ["a"], end=0, now_ms=NOW_MS)
    second = restated(first, end=70_000, now_ms=NOW_MS + 5)["a"]

    assert sequence(second, 70_000) == sequence(first["a"], 70_000)


def test_numberings_that_begin_in_the_future_are_not_used() -> None:
    """The clock was two hours ahead, and was corrected."""
    wrong = with_clusters({}, ["a"], end=0, now_ms=NOW_MS + 7_200_000)
    before = with_clusters(wrong, ["a", "b"], end=100, now_ms=NOW_MS)

    assert usable(before, NOW_MS) == {"b": before["b"]}
    assert usable(before, NOW_MS + 7_200_000) == before


def test_stored_numberings_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "relay.json"
    assert relay_positions.load(path, "topic") == {}
    numberings = restated(with_clusters({}, ["a"], end=3, now_ms=NOW_MS), end=9, now_ms=NOW_MS + 1)

    relay_positions.save(path, "topic", numberings)

    assert relay_positions.load(path, "topic") == numberings
    assert relay_positions.load(path, "other") == {}, "the other topic has none of the rows"
    path.write_text('{"clusters": 1}')
    with pytest.raises(UsageError, match=r"relay\.json cannot be read: delete it"):
        relay_positions.load(path, "topic")
