"""A node that names other nodes and places in each answer does not make its cluster's state grow without end."""

from dataclasses import replace

from rules.model.identifiers import Endpoint, Millis, NodeId, Offset
from rules.model.monitoring import DamagedBatch, Reason
from streaming.replay.poll_history import MOST_GONE, PollHistory
from streaming.replay.probe_state import MOST_DAMAGED, MOST_PLACES, ProbeState
from tests.scripts.log_script import failed, poll, probed, replica


def elsewhere(number: int) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{number}.test", port=9093, protocol="PLAINTEXT")


def test_the_newest_probes_and_failures_are_kept_and_a_loss_of_metadata() -> None:
    state = ProbeState()
    state.observation_failed(failed(Reason.METADATA_LOST), Millis(0))
    for at in range(2 * MOST_PLACES):
        state.endpoint_probed(probed(1, "10.0.0.1", where=elsewhere(at)), Millis(at))
        state.observation_failed(failed(Reason.REFUSED, f"c{at}.test:9093"), Millis(at))
        state.endpoint_probed(probed(1, "10.0.0.1", where=elsewhere(0)), Millis(at))

    assert len(state.probes) == len(state.failures) == MOST_PLACES
    newest = 2 * MOST_PLACES - 1
    assert {f"1@{elsewhere(at)}" for at in (0, newest)} <= {*state.probes}, "one that is probed again stays"
    assert f"1@{elsewhere(1)}" not in state.probes
    assert sum(one.reason is Reason.METADATA_LOST for one in state.failures.values()) == 1


def test_the_first_damaged_places_of_a_log_are_kept() -> None:
    state = ProbeState()
    for at in range(2 * MOST_DAMAGED):
        damage = DamagedBatch(offset=Offset(at), last_offset=Offset(at))
        for endpoint in ("c1.test:9093", "c2.test:9093"):
            state.observation_failed(replace(failed(Reason.LOG_DAMAGED, endpoint), damage=damage), Millis(at))
    state.observation_failed(
        replace(failed(Reason.LOG_DAMAGED, "c1.test:9093"), damage=DamagedBatch(offset=Offset(3))), Millis(999)
    )

    kept = [one for one in state.failures.values() if one.endpoint == "c1.test:9093"]
    assert sorted(one.damage.offset or 0 for one in kept if one.damage) == [*range(MOST_DAMAGED)]
    assert [(one.first_at_ms, one.last_at_ms) for one in kept if one.damage and one.damage.offset == 3] == [(3, 999)]
    assert len(state.failures) == 2 * MOST_DAMAGED


def test_replicas_that_are_not_listed_any_more_are_limited_and_listed_ones_are_not() -> None:
    history = PollHistory()
    listed = [replica(f"{node}-a") for node in range(1, MOST_GONE + 101)]
    history.add(poll(*listed, hw=1), Millis(0))
    assert len(history.replicas) == len(listed)

    history.add(poll(replica("1-b"), hw=1), Millis(1_000))

    kept = [one.history for one in history.replicas]
    assert len(kept) == MOST_GONE + 1
    assert [one.key.id for one in kept if one.last_seen_at_ms == 1_000] == [NodeId(1)]
