"""Polls, histories, probes, failures, and the leader by the newest evidence."""

import pytest

from connectors.observations.log_event import VotersReplaced
from connectors.observations.observation import EndpointProbed, NodeEndpoints
from rules.model.identifiers import Endpoint, NodeId
from rules.model.membership import Voter
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution
from streaming.replay.poll_history import VOTER_REMEMBERED_MS, WINDOW_MS
from streaming.replay.probe_state import LOST_MS, PROBE_MS
from tests.unit.rules.situation import present
from tests.unit.streaming.replay.log_script import (
    START,
    LogScript,
    again,
    apply,
    begun,
    endpoint,
    failed,
    key,
    machine,
    poll,
    replica,
    voter,
)

pytestmark = pytest.mark.kip("D089", "E073", "K037")


def probed(node: int, where: Endpoint, *addresses: str) -> EndpointProbed:
    return EndpointProbed(
        node=NodeId(node),
        endpoint=where,
        resolution=Resolution.RESOLVED if addresses else Resolution.NAME_NOT_FOUND,
        addresses=addresses,
        connection=Connection.ACCEPTED if addresses else Connection.NOT_TRIED,
        answer=Answer.NOT_ASKED,
        answered_by=None,
        detail="",
    )


def test_a_replica_history_is_a_thinned_window_by_the_leaders_clock() -> None:
    script, replay = LogScript(), machine()
    rows = [
        script.row(poll(replica("1-a", end=100), replica("2-b", end=90, fetch=40, caught_up=700))) for _ in range(180)
    ]
    quorum = apply(replay, rows)

    history = quorum.histories[key("2-b")]
    assert (history.first_seen_at_ms, history.last_seen_at_ms) == (START + 1_000, START + 180_000)
    assert [(one.lag, one.lag_ms, one.fetch_age_ms) for one in history.samples] == [(10, 700, 40)] * 13
    gaps = [b.observed_at_ms - a.observed_at_ms for a, b in zip(history.samples, history.samples[1:], strict=False)]
    assert gaps[:-1] == [5_000] * 11
    assert history.samples[-1].observed_at_ms == quorum.now_ms
    assert quorum.histories[key("1-a")].samples[-1].lag_ms == 0


@pytest.mark.parametrize(("after_ms", "samples"), [(WINDOW_MS, 2), (WINDOW_MS + 1, 1)])
def test_samples_are_kept_for_a_minute(after_ms: int, samples: int) -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"))), script.row(poll(replica("1-a")), after_ms=after_ms)]

    assert len(apply(replay, rows).histories[key("1-a")].samples) == samples


def test_a_replica_beyond_the_leaders_row_has_no_negative_lag() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(poll(replica("1-a", end=100), replica("2-b", end=105)))])

    assert quorum.histories[key("2-b")].samples[0].lag == 0


@pytest.mark.kip("C024")
def test_the_endpoints_of_the_nodes_are_those_of_the_newest_poll() -> None:
    script, replay = LogScript(), machine()
    rows = [
        script.row(poll(replica("1-a"), nodes=(NodeEndpoints(id=NodeId(1), endpoints=(endpoint(1, port),)),)))
        for port in (9093, 9193)
    ]
    quorum = apply(replay, rows)

    assert present(quorum.poll).nodes == {1: (endpoint(1, 9193),)}


def test_time_does_not_go_back_with_an_older_row() -> None:
    script, replay = LogScript(), machine()
    now_ms = apply(replay, [script.row(poll())]).now_ms
    assert apply(replay, [script.row(poll(), after_ms=-5_000)]).now_ms == now_ms


def test_a_replica_at_the_leaders_log_end_has_no_lag() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(poll(replica("1-a"), replica("2-b", caught_up=900)))])

    assert quorum.histories[key("2-b")].samples[0].lag_ms == 0


@pytest.mark.parametrize(
    ("polls", "leader_epoch"),
    [
        ([(77, 3), (78, 4), (79, 5)], 5),
        ([(77, 3), (10**12, 4), (77, 4)], 3),
        ([(77, 3), (10**12, 4), (10**12, 4), (77, 4)], 3),
        ([(77, 3), (78, 4), (76, 5)], 5),
    ],
    ids=["advancing", "one false poll", "two false polls", "truncated"],
)
def test_the_epoch_of_a_log_end_is_that_of_the_poll_that_first_reported_it(
    polls: list[tuple[int, int]], leader_epoch: int
) -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), replica("2-b", end=end), epoch=epoch)) for end, epoch in polls]

    assert apply(replay, rows).histories[key("2-b")].last_leader_epoch == leader_epoch


def test_a_replica_that_polls_no_longer_list_is_kept_for_an_hour() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), replica("2-b"))), script.row(poll(replica("1-a")))]
    assert key("2-b") in apply(replay, rows).histories
    assert key("2-b") not in apply(replay, [script.row(poll(replica("1-a")), after_ms=3_600_000)]).histories


@pytest.mark.parametrize(
    ("voters", "after_ms", "kept"),
    [
        (["1-a", "2-new"], VOTER_REMEMBERED_MS, True),
        (["1-a", "2-new"], VOTER_REMEMBERED_MS + 1, False),
        (["1-a"], 80_000_000, True),
        (["1-a", "3-c"], 80_000_000, False),
    ],
    ids=["directory of a voter", "after a day", "of a removed voter", "of no voter"],
)
def test_a_former_directory_of_a_voter_is_kept_for_a_day(voters: list[str], after_ms: int, kept: bool) -> None:
    script, replay = begun()
    if "3-c" not in voters:
        script.voters("1-a", "2-old")
    rows = [script.read(), script.row(poll(replica("1-a"), replica("2-old")))]
    script.voters(*voters)
    rows.append(script.read(after_ms=0))
    quorum = apply(replay, [*rows, script.row(poll(replica("1-a")), after_ms=after_ms)])

    assert (key("2-old") in quorum.histories) is kept


@pytest.mark.kip("D043")
def test_a_poll_of_an_older_epoch_is_ignored_for_30_s() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(poll(leader=2, epoch=5)), script.row(poll(leader=1, epoch=4))])
    assert (quorum.leader_id, quorum.leader_epoch, quorum.poll.leader_epoch if quorum.poll else None) == (2, 5, 5)
    quorum = apply(replay, [script.row(poll(leader=1, epoch=4), after_ms=28_000)])
    assert (quorum.leader_id, quorum.leader_epoch) == (2, 5)
    quorum = apply(replay, [script.row(poll(leader=1, epoch=4), after_ms=3_000)])
    assert (quorum.leader_id, quorum.leader_epoch) == (1, 4)


def test_the_high_watermark_never_decreases_within_an_epoch() -> None:
    script, replay = LogScript(), machine()
    assert apply(replay, [script.row(poll(epoch=1, hw=90)), script.row(poll(epoch=1, hw=80))]).high_watermark == 90
    assert apply(replay, [script.row(poll(epoch=2, hw=85))]).high_watermark == 85


@pytest.mark.kip("D044")
def test_there_is_no_leader_if_a_majority_of_addresses_reports_none_and_one_node_says_so() -> None:
    script, replay = begun()
    assert apply(replay, [script.read(), script.row(failed(Reason.NO_LEADER, "c1:9093"))]).leader_id == 1
    assert apply(replay, [script.row(failed(Reason.TIMED_OUT, "c2:9093"))]).leader_id == 1
    assert apply(replay, [script.row(failed(Reason.REFUSED, "c3:9093"))]).leader_id is None
    assert apply(again(replay.to_bytes()), []).leader_id is None
    assert apply(replay, [script.row(poll(leader=2, epoch=2))]).leader_id == 2


def test_a_refused_probe_is_no_report_that_there_is_no_leader() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(leader=1)), script.row(failed(Reason.NO_LEADER, "c1:9093"))]
    rows += [script.row(failed(Reason.REFUSED, f"c{node}:9093", ObservationSource.PROBE)) for node in (2, 3)]
    assert apply(replay, rows).leader_id == 1


def test_refused_connections_alone_keep_the_leader_and_a_fetch_proves_one() -> None:
    script, replay = begun()
    first = script.read()
    refused = [script.row(failed(Reason.REFUSED, f"c{node}:9093")) for node in (1, 2, 3)]
    assert apply(replay, [first, *refused]).leader_id == 1
    assert apply(replay, [script.row(failed(Reason.NOT_READY, "c1:9093"))]).leader_id is None
    script.noops(1)
    assert apply(replay, [script.read()]).leader_id == 1


def test_a_run_of_failures_keeps_its_start_and_ends_with_success_at_its_endpoint() -> None:
    script, replay = LogScript(), machine()
    source = ObservationSource.QUORUM
    apply(replay, [script.row(failed(Reason.REFUSED, source=source))])
    (failure,) = apply(replay, [script.row(failed(Reason.TIMED_OUT, source=source))]).failures
    assert (failure.reason, failure.first_at_ms, failure.last_at_ms) == (
        Reason.TIMED_OUT,
        START + 1_000,
        START + 2_000,
    )
    script.leader(1)
    assert apply(replay, [script.read()]).failures == (failure,), "the log is another data source"
    assert apply(replay, [script.row(poll(endpoint="c2:9093"))]).failures == (failure,)
    assert apply(replay, [script.row(poll(endpoint="c1:9093"))]).failures == ()


def test_a_fetch_ends_every_failure_to_fetch_the_log() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(failed(Reason.REFUSED, "c2:9093")), script.row(failed(Reason.UNRESOLVABLE, ""))]
    assert len(apply(replay, rows).failures) == 2
    script.leader(1)
    assert apply(replay, [script.read()]).failures == ()


def test_a_failure_that_is_not_repeated_is_dropped_after_a_minute() -> None:
    script, replay = LogScript(), machine()
    apply(replay, [script.row(failed(Reason.REFUSED, "c2:9093", ObservationSource.PROBE))])
    assert apply(replay, [script.row(after_ms=60_000)]).failures
    assert apply(replay, [script.row(after_ms=1)]).failures == ()


def test_an_answered_poll_ends_the_failure_to_find_any_address() -> None:
    script, replay = LogScript(), machine()
    assert apply(replay, [script.row(failed(Reason.UNRESOLVABLE, "", ObservationSource.QUORUM))]).failures
    assert apply(replay, [script.row(poll())]).failures == ()


def test_a_probe_ends_the_failure_to_probe_its_own_endpoint() -> None:
    script, replay = LogScript(), machine()
    source = ObservationSource.PROBE
    rows = [script.row(failed(Reason.TOO_FEW_DESCRIPTORS, f"c{node}:9093", source)) for node in (2, 3)]
    quorum = apply(replay, [*rows, script.row(probed(2, endpoint(2), "10.0.0.2"))])
    assert [one.endpoint for one in quorum.failures] == ["c3:9093"]


def test_a_loss_of_metadata_is_kept_for_an_hour_beside_the_next_failure_at_its_endpoint() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(failed(Reason.METADATA_LOST)), script.row(failed(Reason.REFUSED), after_ms=1)])
    assert [one.reason for one in quorum.failures] == [Reason.REFUSED, Reason.METADATA_LOST]
    quorum = apply(replay, [script.row(after_ms=LOST_MS - 1)])
    assert [one.reason for one in quorum.failures] == [Reason.METADATA_LOST]
    assert apply(replay, [script.row(after_ms=1)]).failures == ()


def test_only_the_first_of_several_gaps_without_an_answer_in_between_is_no_observation() -> None:
    """A gatherer that only restarts, again and again, is a failure to observe."""
    script, replay = LogScript(), machine()
    observed_nothing = []
    gap = failed(Reason.INTERRUPTED, "")
    for event in (poll(), gap, gap, poll(), gap):
        apply(replay, [script.row(event)])
        observed_nothing.append(replay.observed_nothing)
    assert observed_nothing == [False, True, False, False, True]


def test_the_probe_of_an_endpoint_that_its_voter_has_left_is_dropped() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b")
    apply(replay, [script.row(probed(2, endpoint(2), "10.0.0.2")), script.read()])
    script.write(VotersReplaced(at=script.at(), voters=(voter("1-a"), voter("2-b", port=9193))))
    quorum = apply(replay, [script.read()])
    assert quorum.probes == {}
    assert quorum.addresses == {"c2": ("10.0.0.2",)}, "the host is the same"


def test_the_addresses_of_a_voters_name_are_kept_for_longer_than_its_probe() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b")
    apply(replay, [script.row(probed(2, endpoint(2), "10.0.0.2")), script.read()])
    script.noops(1)
    quorum = apply(replay, [script.read(after_ms=PROBE_MS + 1)])
    assert (quorum.probes, quorum.addresses) == ({}, {"c2": ("10.0.0.2",)})


def test_probes_of_endpoints_that_are_no_longer_listed_are_dropped() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b")
    looks = [script.row(probed(1, endpoint(1), "10.0.0.1")), script.row(probed(2, endpoint(2), "10.0.0.2"))]
    quorum = apply(replay, [*looks, script.read()])
    assert set(quorum.probes) == {"1@c1:9093", "2@c2:9093"}
    assert quorum.addresses == {"c1": ("10.0.0.1",), "c2": ("10.0.0.2",)}

    quorum = apply(replay, [script.row(probed(2, endpoint(2)))])
    assert quorum.probes["2@c2:9093"].resolution is Resolution.NAME_NOT_FOUND
    assert quorum.addresses["c2"] == ("10.0.0.2",), "a name that does not resolve keeps its last address"

    script.voters("1-a")
    quorum = apply(replay, [script.read()])
    assert set(quorum.probes) == {"1@c1:9093"}
    assert set(quorum.addresses) == {"c1"}


def test_a_probe_is_kept_while_a_poll_lists_its_endpoint_or_no_voter_set_is_known() -> None:
    script, replay = LogScript(), machine()
    looks = [script.row(probed(node, endpoint(node), f"10.0.0.{node}")) for node in (4, 5)]
    looks.append(script.row(probed(6, endpoint(6))))
    listed = poll(replica("1-a"), replica("4-d"))
    assert [*apply(replay, [*looks, script.row(listed)]).probes] == ["4@c4:9093", "5@c5:9093", "6@c6:9093"]

    script.leader(1)
    script.voters("1-a")
    quorum = apply(replay, [script.read(), script.row(listed)])
    assert (set(quorum.probes), set(quorum.addresses)) == ({"4@c4:9093"}, {"c4"})


def test_a_probe_that_is_not_repeated_is_dropped_after_ten_minutes() -> None:
    script, replay = LogScript(), machine()
    apply(replay, [script.row(probed(node, endpoint(node), f"10.0.0.{node}"), after_ms=1) for node in (1, 2)])
    assert set(apply(replay, [script.row(after_ms=PROBE_MS - 1)]).probes) == {"1@c1:9093", "2@c2:9093"}
    assert set(apply(replay, [script.row(after_ms=1)]).probes) == {"2@c2:9093"}


def test_the_cluster_id_is_that_of_the_first_poll_that_reports_it() -> None:
    script, replay = LogScript(), machine()
    assert apply(replay, [script.row(poll())]).cluster_id == "cluster-id"
    assert apply(replay, [script.row(poll(cluster_id="other"))]).cluster_id == "cluster-id"


def test_an_ipv6_endpoint_has_brackets_and_its_addresses_have_none() -> None:
    script, replay = begun()
    where = Endpoint(listener="CONTROLLER", host="fd00::1", port=9093)
    script.write(VotersReplaced(at=script.at(), voters=(Voter(key=key("1-a"), endpoints=(where,)),)))
    quorum = apply(replay, [script.read(), script.row(probed(1, where, "fd00::1")), script.row(poll(leader=1))])
    assert str(where) == "[fd00::1]:9093"
    assert set(quorum.probes) == {"1@[fd00::1]:9093"}
    assert quorum.addresses == {"fd00::1": ("fd00::1",)}
