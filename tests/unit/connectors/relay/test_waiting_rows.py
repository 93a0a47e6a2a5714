"""The rows that a relay's topic may not have: acknowledged in the order of the journal."""

from dataclasses import replace

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.written_clusters import WaitingRows


def rows(*clusters: str) -> WaitingRows:
    """Returns waiting rows with the sequences 0, 1, ... of these clusters, all sent."""
    waiting = WaitingRows({"eu", "us"})
    row = Observation(cluster="", kind=ObservationKind.QUORUM, observed_at_ms=1, payload=b"{}")
    for sequence, cluster in enumerate(clusters):
        waiting.add(replace(row, cluster=cluster, sequence=sequence), sent=sequence)
    return waiting


def test_rows_of_a_cluster_leave_in_their_order() -> None:
    waiting = rows("eu", "eu", "eu")

    assert waiting.remove("eu", lambda one: one.sequence == 1) == [], "the first one is missing in the topic"
    assert [one.sequence for one in waiting.remove("eu", lambda one: one.sequence <= 1)] == [0, 1]
    assert [one.sequence for one in waiting.of("eu")] == [2]


def test_the_journal_is_done_below_the_first_row_of_any_cluster_that_waits() -> None:
    waiting = rows("eu", "us", "us", "eu")

    waiting.remove("us", lambda _: True)
    assert waiting.done_to() is None, "row 0 still waits"
    waiting.remove("eu", lambda one: one.sequence == 0)
    assert waiting.done_to() == 3
    waiting.remove("eu", lambda _: True)
    assert waiting.done_to() == 4
    assert waiting.done_to() is None, "it has not advanced"


def test_rows_of_another_cluster_do_not_wait() -> None:
    waiting = rows("asia", "eu")

    assert waiting.done_to() == 1
    assert waiting.in_flight == 1


def test_rows_that_another_relay_writes_now_still_wait_but_are_not_sent() -> None:
    waiting = rows("eu", "us")
    waiting.no_longer_sent("eu")

    assert waiting.in_flight == 1
    assert waiting.remove("eu", lambda _: True) == [], "this relay has not sent it"
    assert waiting.done_to() == 1
