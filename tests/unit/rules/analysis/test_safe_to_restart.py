"""Whether a controller may be restarted: what the quorum would be without it, and what must be fixed first."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.analysis.safe_to_restart import RestartSafety, known_controllers, safe_to_restart
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import Access, Answer, CertificateFault, Connection
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    all_refuse,
    healthy,
    key,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    present,
    probed,
    refuses,
    registered_elsewhere,
    removed,
    resolver_fails,
    static,
    voter_not_fetching,
    with_certificates,
    with_poll,
    with_rows,
)


def restart_of(quorum: Quorum, node: int) -> RestartSafety:
    thresholds = thresholds_for({})
    values = {**thresholds["voter-disk-replaced"].values, **thresholds["stale-voter-endpoint"].values}
    return safe_to_restart(quorum, NodeId(node), Thresholds(values=values))


def without_row(quorum: Quorum, node: int) -> Quorum:
    """Returns the quorum with a committed voter missing in the leader's latest voter set."""
    rows = tuple(each for each in present(quorum.poll).voters if each.key.id != node)
    return with_poll(quorum, voters=rows)


def voter_behind(quorum: Quorum, node: int, lag_ms: int) -> Quorum:
    return with_rows(quorum, node, last_caught_up_ms=Millis(NOW - lag_ms))


def test_restart_of_the_leader_is_safe_and_has_a_note_on_the_election() -> None:
    assert restart_of(healthy(3), 3).safe
    assert restart_of(healthy(3), 3).notes == (
        "it leads: its restart causes an election of a second or two; in a rolling restart the leader is restarted "
        "last",
    )
    assert restart_of(healthy(3), 1).notes == ()


ONE_REMAINS = "without it 1 voter of 3 would remain, caught up and reachable, and 2 are needed"
MAY_NOT_REJOIN = "a restarted controller may not be able to rejoin the quorum"
NAME_GONE = "the name does not resolve (NXDOMAIN)"
NEW_DISK = "has a new directory id and is not a voter with it yet: finish the disk replacement first"


@pytest.mark.parametrize(
    ("situation", "against"),
    [
        (
            lambda quorum: voter_not_fetching(quorum, 2),
            ("controller 2 does not fetch: bring it back first", ONE_REMAINS),
        ),
        (
            lambda quorum: refuses(voter_not_fetching(quorum, 2), 2),
            ("controller 2 does not fetch: bring it back first", ONE_REMAINS),
        ),
        (
            lambda quorum: refuses(quorum, 2),
            (
                "controller 2 refuses connections at its recorded endpoint: bring it back first",
                ONE_REMAINS,
                "voter 2's recorded endpoint c2.test:9093 is stale (refused-while-fetching; refuses connections): "
                + MAY_NOT_REJOIN,
            ),
        ),
        (
            lambda quorum: voter_behind(quorum, 2, 60_000),
            ("controller 2 is 60 s behind the leader: bring it back first", ONE_REMAINS),
        ),
        (
            lambda quorum: name_not_found(quorum, 2),
            (f"voter 2's recorded endpoint c2.test:9093 is stale (name-gone; {NAME_GONE}): {MAY_NOT_REJOIN}",),
        ),
        (
            lambda quorum: name_not_found(quorum, 1),
            (f"voter 1's recorded endpoint c1.test:9093 is stale (name-gone; {NAME_GONE}): {MAY_NOT_REJOIN}",),
        ),
        (
            lambda quorum: registered_elsewhere(name_not_found(quorum, 2), 2),
            (
                "voter 2's recorded endpoint c2.test:9093 is stale "
                f"(registration-differs, name-gone; {NAME_GONE}): {MAY_NOT_REJOIN}",
            ),
        ),
        (
            lambda quorum: probed(quorum, 2, answer=Answer.NO_ANSWER),
            (
                "controller 2 serves no new connection at its recorded endpoint: bring it back first",
                ONE_REMAINS,
                "voter 2 serves no new connection at c2.test:9093 (accepts connections and does not answer): "
                "a restarted controller could not connect to it, and it would give no vote",
            ),
        ),
        (
            lambda quorum: probed(replace(quorum, leader_views={}), 2, connection=Connection.TIMED_OUT),
            ("unknown whether voter 2 can be reached: c2.test:9093: timed-out from the monitor's host",),
        ),
        (
            lambda quorum: resolver_fails(quorum, 2),
            ("unknown whether voter 2 can be reached: the resolver of the monitor's host failed on c2.test",),
        ),
        (lambda quorum: observer(quorum, 2, directory="newDisk"), (f"controller 2 {NEW_DISK}",)),
        (
            lambda quorum: without_row(quorum, 2),
            (
                "controller 2 is not known to have caught up: bring it back first",
                ONE_REMAINS,
                f"a change of the voter set is in progress ({key(2)}): wait until it is committed",
            ),
        ),
        (
            lambda quorum: leaderless(quorum, 1),
            ("no controller leads the quorum (reported by c1.test:9093): fix that first",),
        ),
        (
            lambda quorum: leaderless(quorum, 1, 2, 3, 4, 5),
            (
                "no controller leads the quorum (reported by c1.test:9093, c2.test:9093, c3.test:9093 and 2 more): "
                "fix that first",
            ),
        ),
        (all_refuse, ("no controller leads the quorum (all refuse connections): fix that first",)),
        (not_observed_for, ("unknown: DescribeQuorum was last answered at 2026-09-21 14:13:06 UTC",)),
        (
            lambda quorum: replace(quorum, last_offset=None),
            ("unknown: nothing of the metadata log has been read yet",),
        ),
        (
            lambda quorum: replace(quorum, access=Access(log=False)),
            ("unknown: only polls are observed here (metadata_log: false)",),
        ),
        (
            lambda quorum: replace(quorum, committed=None),
            ("unknown: no committed VotersRecord has been read yet",),
        ),
    ],
)
def test_reasons_against_a_restart(situation: Callable[[Quorum], Quorum], against: tuple[str, ...]) -> None:
    result = restart_of(situation(healthy(3)), 1)

    assert not result.safe
    assert result.against == against
    assert (result.node, result.notes) == (NodeId(1), ())


def test_a_voter_that_serves_no_new_connection_may_be_restarted_itself() -> None:
    result = restart_of(probed(healthy(), 2, answer=Answer.NO_ANSWER), 2)
    assert result.safe
    assert result.notes == (
        "it serves no new connection: take a thread dump, and count its open files, before you restart it",
    )


@pytest.mark.parametrize(("lag_ms", "safe"), [(5_000, True), (5_001, False)])
def test_voter_has_caught_up_if_it_is_at_most_five_seconds_behind(lag_ms: int, safe: bool) -> None:
    assert restart_of(voter_behind(healthy(3), 2, lag_ms), 1).safe is safe


def test_remaining_voters_must_be_able_to_elect_a_leader() -> None:
    """Both fetch from the leader, but neither could reach the other in an election without it."""
    apart = restart_of(name_not_found(healthy(), 1, 2), 3)
    assert apart.against[-1] == (
        "without it no voter could win an election: the others do not reach each other at their recorded endpoints"
    )
    one_way = restart_of(name_not_found(healthy(), 1), 3)
    assert not any("no voter could win an election" in why for why in one_way.against), "1 still dials 2"


@pytest.mark.parametrize(
    ("voters", "why"),
    [
        (1, "it is the only voter: the quorum has no leader until it is back"),
        (2, "without it 1 voter of 2 would remain, caught up and reachable, and 2 are needed"),
    ],
)
def test_one_or_two_voters_tolerate_no_restart(voters: int, why: str) -> None:
    assert restart_of(healthy(voters), 1).against == (why,)


def test_unfinished_disk_replacement_is_a_reason_against_a_restart() -> None:
    half_done = removed(observer(healthy(3), 2, directory="newDisk"), 2, ago_ms=60_000)

    assert f"controller 2 {NEW_DISK}" in restart_of(half_done, 1).against
    assert restart_of(half_done, 2).against == (f"controller 2 {NEW_DISK}",), "it is no voter now"


def test_replaced_directory_is_no_unfinished_replacement() -> None:
    """The leader lists a voter that was removed as an observer for 300 s after its last fetch."""
    result = restart_of(observer(healthy(3), 2, directory="oldDisk", fetched_ago_ms=150_000), 1)

    assert result.safe, result.against


def test_new_directory_that_a_new_leader_has_not_heard_of_yet_is_still_unfinished() -> None:
    """A new leader does not know when the others fetched; the polls before its election do."""
    quorum = observer(healthy(3), 2, directory="newDisk")
    rows = tuple(replace(each, last_fetch_ms=None, last_caught_up_ms=None) for each in present(quorum.poll).observers)

    elected = with_poll(quorum, observers=rows)

    assert restart_of(elected, 1).against == (f"controller 2 {NEW_DISK}",)


def test_observer_without_a_vote_may_be_restarted() -> None:
    waiting = observer(healthy(3), 4)

    assert restart_of(waiting, 4).safe
    assert any("is no voter" in note for note in restart_of(waiting, 4).notes)
    assert restart_of(waiting, 4).node == 4


@pytest.mark.parametrize(
    ("quorum", "known"),
    [
        pytest.param(observer(healthy(3), 4), {1, 2, 3, 4}, id="a registered controller without a vote"),
        pytest.param(replace(static(healthy(3)), controllers={}), {1, 2, 3}, id="the voters of the poll"),
        pytest.param(replace(healthy(3), controllers={}, poll=None), {1, 2, 3}, id="the voters of the log"),
    ],
)
def test_controllers_are_known_by_the_log_and_by_the_poll(quorum: Quorum, known: set[int]) -> None:
    assert known_controllers(quorum) == known


def test_static_quorum_is_evaluated_by_the_poll() -> None:
    result = restart_of(static(healthy(3)), 1)

    assert (result.safe, result.notes) == (True, ()), result.against
    assert not restart_of(static(voter_not_fetching(healthy(3), 2)), 1).safe
    unresolved = restart_of(static(name_not_found(healthy(3), 2)), 1)
    assert unresolved.against[0].startswith("voter 2's configured endpoint c2.test:9093 is stale (name-gone")


def test_static_quorum_of_an_old_kafka_is_evaluated_with_a_note() -> None:
    quorum = static(name_not_found(healthy(3), 2))
    result = restart_of(replace(quorum, poll=replace(present(quorum.poll), nodes={})), 1)

    assert result.safe, result.against
    assert result.notes == (
        "DescribeQuorum has no endpoints of a static quorum before Kafka 3.9: whether the controllers find each other "
        "after a restart is not evaluated here",
    )


def test_changed_directory_id_counts_as_a_voter_set_change() -> None:
    quorum = healthy(3)
    other = tuple(
        replace(each, key=key(2, "anotherDisk")) if each.key.id == 2 else each for each in present(quorum.poll).voters
    )

    result = restart_of(with_poll(quorum, voters=other), 1)

    assert any("a change of the voter set" in each for each in result.against)


def test_voter_with_an_expired_certificate_is_a_reason_against_the_restart_of_others_only() -> None:
    quorum = with_certificates(healthy(), {1: CertificateFault.EXPIRED})

    assert restart_of(quorum, 2).against[0] == (
        "voter 1 presents a certificate at c1.test:9093 that expired at 2026-09-20 14:13:20 UTC: the other voters "
        "cannot reach it, and cannot fetch from it"
    )
    assert any("no voter could win an election" in reason for reason in restart_of(quorum, 2).against)
    own = restart_of(quorum, 1)
    assert own.safe
    assert own.notes[-1] == (
        "its certificate expired at 2026-09-20 14:13:20 UTC: install a new one before you restart it"
    )


def test_certificates_that_only_the_monitor_may_not_accept_make_a_restart_unknown() -> None:
    quorum = with_certificates(healthy(), dict.fromkeys((1, 2, 3), CertificateFault.UNTRUSTED))
    assert restart_of(quorum, 1).against[0].startswith("unknown whether voter 1 can be reached: ")
