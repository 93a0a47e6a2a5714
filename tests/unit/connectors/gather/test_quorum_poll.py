"""The quorum poll against scripted controllers: it writes a row each interval, also without answers."""

from functools import partial
from typing import Any

import pytest

from connectors.kafka.cluster_connection import Address
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason
from tests.unit.connectors.gather.blocked_loop import block
from tests.unit.connectors.gather.polled_quorum import (
    INTERVAL_MS,
    PolledQuorum,
    follower_response,
    leader_response,
    poll,
)
from tests.unit.connectors.gather.scripted_cluster import (
    C1,
    C2,
    C3,
    Script,
    fails_with,
)
from tests.unit.connectors.kafka.kafka_answers import replica_row


@pytest.fixture
def loop(simulated_time_loop: EventLoop) -> EventLoop:
    """The tests use no sockets, so time advances only when every coroutine waits."""
    return simulated_time_loop


def never_answers(_: Any = None) -> Any:
    return None


refused = fails_with(Reason.REFUSED)


def test_polls_after_a_delay_of_the_loop_are_where_they_would_have_been(loop: EventLoop) -> None:
    """All clusters of a process are delayed together: polls at once would be polls at once from then on."""
    polled = PolledQuorum(loop, {C1: leader_response})
    times = polled.run(0.25, lambda: block(loop, 0.53), 0.47, lambda: block(loop, 0.08), 0.17)
    # The poll of 3 is made when the loop runs again; those of 4 to 8 are left out; that of 13 is only a little late.
    assert times == [0, 1, 2, 7.8, 9, 10, 11, 12, 13.3, 14]


def test_only_the_leader_is_polled_once_it_is_found(loop: EventLoop) -> None:
    output, controllers = poll(loop, {C1: follower_response, C2: leader_response, C3: follower_response}, seconds=0.75)
    assert set(output.answered_by) == {"c2:9093"}
    assert len(output.answered_by) >= 5
    assert controllers.queried.count(C1) == 1
    assert output.reasons_by_endpoint == {}


def test_of_two_answers_that_of_the_newest_epoch_is_written(loop: EventLoop) -> None:
    """A former leader that was cut off and has not noticed answers too."""
    output, _ = poll(loop, {C1: partial(leader_response, epoch=3), C2: partial(leader_response, epoch=4)}, seconds=0.05)
    assert output.answered_by == ["c2:9093"]


def test_of_several_requests_for_a_poll_the_newest_counts(loop: EventLoop) -> None:
    """The time at which a hold ends may be another one after each evaluation."""
    polled = PolledQuorum(loop, {C1: leader_response})

    def request() -> None:
        for number in range(20):
            polled.poll.poll_in(0.13 + number / 1000)

    assert polled.run(0.0, request, 0.25) == [0, 1, 1.49, 2]


def test_a_cluster_whose_id_is_not_configured_is_asked_for_it_once(loop: EventLoop) -> None:
    output, controllers = poll(loop, {C1: leader_response}, seconds=0.35, cluster_id=None)
    assert [event.cluster_id for event in output.polls] == ["answered"] * 4
    assert controllers.identified == [C1]


def static(row: Any) -> Any:
    """Returns the row of a voter of a static quorum: it has no directory id, which kafka-python reads as None."""
    row.replica_directory_id = None
    return row


def test_log_of_a_static_voter_that_falls_between_two_polls_is_written(loop: EventLoop) -> None:
    """It has fetched all records again by the next poll, and no directory id shows that its disk is another one."""
    began = loop.now()
    polled = PolledQuorum(loop, {C1: lambda _: answer(round((loop.now() - began) * 1000))})

    def answer(at_ms: int) -> Any:
        # It stops to fetch at 0 ms, and fetches again from 240 ms on, with an empty log until 280 ms.
        fetched = 0 if at_ms < 240 else 10_000 + at_ms
        end = 0 if 240 <= at_ms < 280 else 40
        rows = [
            static(replica_row(1, end=40, fetched=10_000 + at_ms)),
            static(replica_row(2, end=end, fetched=fetched)),
        ]
        return leader_response(voters=rows)

    times = polled.run(0.55)
    ends = [one.voters[1].log_end_offset for one in polled.output.polls]
    assert (times, ends) == ([0, 1, 2, 2.5, 3, 4, 5], [40, 40, 40, 0, 40, 40, 40])


@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize("fetched", [0, 10_000, -1])
def test_leader_is_asked_more_often_only_while_a_static_voter_does_not_fetch(
    loop: EventLoop, fetched: int, *, is_static: bool
) -> None:
    rows = [replica_row(1, fetched=10_000), replica_row(2, fetched=fetched)]
    rows = [static(row) for row in rows] if is_static else rows
    polled = PolledQuorum(loop, {C1: partial(leader_response, voters=rows)})
    rows_at = polled.run(0.95)
    often = is_static and fetched != 10_000
    assert len(rows_at) == 10
    assert len(polled.controllers.queried) == (57 if often else 10)


def test_each_endpoint_without_an_answer_is_recorded_with_its_reason(loop: EventLoop) -> None:
    output, _ = poll(loop, {C1: follower_response, C2: refused, C3: never_answers}, seconds=0.5)
    assert output.reasons_by_endpoint == {
        "c1:9093": Reason.NO_LEADER,
        "c2:9093": Reason.REFUSED,
        "c3:9093": Reason.TIMED_OUT,
    }


def test_rows_continue_when_no_controller_answers_and_none_is_queried_twice(loop: EventLoop) -> None:
    output, controllers = poll(loop, {C1: never_answers, C2: never_answers}, seconds=1.0)
    times = sorted({round(at * 1000 / INTERVAL_MS) for at in output.times})
    assert len(times) >= 6
    assert sorted(controllers.queried) == [C1, C2], "their answers are still pending"


def test_rows_continue_when_there_are_too_many_addresses_to_query_each_interval(loop: EventLoop) -> None:
    scripts = {Address(f"c{at}", 9093): refused for at in range(20)}
    output, controllers = poll(loop, scripts, seconds=1.0)
    assert len({round(at * 1000 / INTERVAL_MS) for at in output.times}) >= 6
    assert len(controllers.queried) <= 20


def test_new_leader_is_found_while_the_old_one_does_not_answer(loop: EventLoop) -> None:
    scripts: dict[Address, Script] = {C1: leader_response, C2: follower_response}

    def stop_answering(_: Any) -> Any:
        scripts[C1], scripts[C2] = never_answers, leader_response
        return None

    scripts[C1] = stop_answering
    output, _ = poll(loop, scripts, seconds=0.6)
    assert "c2:9093" in output.answered_by


def test_leader_reported_by_a_fetch_is_polled_first_and_others_only_if_it_does_not_lead(loop: EventLoop) -> None:
    def queried(scripts: dict[Address, Script]) -> list[Address]:
        polled = PolledQuorum(loop, scripts, configured=(C1, C2))
        polled.nodes.leader = C3
        polled.run(0.05)
        return polled.controllers.queried

    assert set(queried({C1: follower_response, C2: follower_response, C3: leader_response})) == {C3}
    assert queried({C1: follower_response, C2: leader_response, C3: follower_response})[:3] == [C3, C1, C2]


def test_answer_to_a_query_sent_before_a_newer_answer_is_discarded(loop: EventLoop) -> None:
    """Two brokers forward the poll: the slower one's answer must not be written after the faster one's next answer."""
    answers: list[int] = []

    def forward(_: Any) -> Any:
        answers.append(len(answers))
        return leader_response(high_watermark=answers[-1])

    def forward_except_once(request: Any) -> Any:
        return None if polled.controllers.queried.count(C1) == 3 else forward(request)

    polled = PolledQuorum(loop, {C1: forward_except_once, C2: forward}, delay_s={C2: 0.01})
    polled.run(0.95)
    high_watermarks = [event.high_watermark for event in polled.output.polls]
    assert "c2:9093" in polled.output.answered_by
    assert high_watermarks == sorted(high_watermarks, key=lambda each: each or 0)


def test_the_leader_is_polled_first_although_another_node_answered_before(loop: EventLoop) -> None:
    """A broker forwards the request to a leader: its answer is later, and it may know an older one."""
    polled = PolledQuorum(loop, {C1: leader_response, C2: leader_response}, configured=(C1,))
    polled.run(0.25, lambda: setattr(polled.nodes, "leader", C2), 0.3)
    assert polled.output.answered_by == ["c1:9093"] * 3 + ["c2:9093"] * 3
