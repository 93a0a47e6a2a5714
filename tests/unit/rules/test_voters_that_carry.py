"""high-watermark-stalled, failure-tolerance and voter-lagging: one cause, one voice."""

from dataclasses import replace

import pytest

from rules.analysis.voter_status import Part, seats
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    behind,
    findings,
    healthy,
    judged,
    key,
    leaderless,
    observer,
    silent,
    stalled,
    static,
    told,
    unknown,
    unseen_for,
)

STALLED = "critical high-watermark-stalled: quorum"
NO_MORE = "warning failure-tolerance: quorum"
DISK = observer(silent(healthy(), 2), 2, directory="newDirOf2")


@pytest.mark.kip("D107")
@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (silent(healthy(), 2), [NO_MORE]),
        (behind(healthy(), 2), [NO_MORE]),
        (silent(healthy(4), 2), [NO_MORE]),
        (silent(healthy(5), 2), ["warning voter-lagging: voter 2"]),
        (silent(silent(healthy(5), 1), 2), [NO_MORE]),
        (behind(silent(healthy(5), 1), 2), [NO_MORE]),
        (silent(behind(healthy(), 1), 2), ["critical failure-tolerance: quorum"]),
        # Of two voters neither may fail, by design: that is the shape's.
        (healthy(2), []),
        (silent(healthy(2), 1), ["critical failure-tolerance: quorum"]),
        (static(silent(healthy(), 2)), [NO_MORE]),
        (static(silent(healthy(5), 2)), ["warning voter-lagging: voter 2"]),
        # A replaced disk has its own voice, where it can be judged.
        (DISK, ["warning voter-disk-replaced: controller 2"]),
        (static(DISK), [NO_MORE]),
        # Something else is missing as well.
        (
            observer(silent(silent(healthy(5), 1), 2), 2, directory="newDirOf2"),
            [NO_MORE, "warning voter-disk-replaced: controller 2"],
        ),
        (
            observer(silent(healthy(5), 2), 2, directory="newDirOf2"),
            ["warning voter-disk-replaced: controller 2"],
        ),
        # Nothing commits: why voters are missing is its evidence.
        (stalled(healthy()), [STALLED]),
        (stalled(silent(silent(healthy(), 1), 2)), [STALLED]),
        (stalled(healthy(), for_ms=10_001, waiting=1), [STALLED]),
        (stalled(healthy(), for_ms=10_000), []),
        # NoOps are switched off: an idle log ends at its high watermark, however long it stands there.
        (replace(healthy(), high_watermark_since_ms=Millis(NOW - 3_600_000)), []),
    ],
)
def test_one_cause_one_voice(quorum: Quorum, said: list[str]) -> None:
    shape = [each for each in told(quorum) if "quorum-shape" not in each]
    assert shape == said


def test_nobody_leads_explains_all_three() -> None:
    hurt = leaderless(silent(healthy(), 2), 1)
    assert told(hurt) == ["critical no-leader: quorum"]
    assert {("failure-tolerance", None), ("voter-lagging", None), ("high-watermark-stalled", None)} <= {*unknown(hurt)}


def test_what_explains_the_missing_voter_is_not_the_same_as_well() -> None:
    assert ("failure-tolerance", "quorum") in unknown(DISK)
    assert ("voter-lagging", "voter 2") in unknown(DISK)


def test_a_voter_that_catches_up_is_not_named_and_not_well() -> None:
    closing = behind(healthy(5), 2, lags=[60_000 - 4_000 * n for n in range(12)])
    assert told(closing) == []
    assert ("voter-lagging", "voter 2") in unknown(closing)
    widening = behind(healthy(5), 2, lags=[20_000 + 4_000 * n for n in range(12)])
    assert told(widening) == ["warning voter-lagging: voter 2"]


def test_a_voter_that_is_only_slow_is_not_to_be_replaced() -> None:
    (slow,), (gone,) = (findings(hurt, "failure-tolerance") for hurt in (behind(healthy(), 2), silent(healthy(), 2)))
    assert [any("gone for good" in step for step in each.remedy) for each in (slow, gone)] == [False, True]


def test_an_old_poll_judges_nobody() -> None:
    hurt = unseen_for(stalled(silent(healthy(), 2)), log_ms=None, poll_ms=11_000)
    assert findings(hurt, "failure-tolerance") == findings(hurt, "high-watermark-stalled") == []


def test_a_new_leader_without_a_high_watermark_stalls_too() -> None:
    """It could not commit so much as its own LeaderChangeMessage."""
    hurt = replace(stalled(healthy()), high_watermark=None, leader_epoch=Epoch(8))
    (finding,) = findings(hurt, "high-watermark-stalled")
    assert finding.summary.startswith("nothing is committed: the high watermark is unknown for 31 s while controller 3")


def test_a_new_leader_that_has_not_heard_of_everybody_yet_is_no_incident() -> None:
    """It answers -1 for who did not fetch from it yet; what was seen before bridges that."""
    quorum = healthy()
    assert quorum.poll is not None
    fresh = replace(
        quorum,
        poll=replace(
            quorum.poll,
            voters=tuple(
                row
                if row.key.id == 3
                else replace(row, last_fetch_ms=None, last_caught_up_ms=None, log_end_offset=None)
                for row in quorum.poll.voters
            ),
        ),
    )
    assert fresh.poll is not None
    seated = seats(fresh, fresh.poll, thresholds_for({})["failure-tolerance"])
    assert [seat.part for seat in seated] == [Part.BEHIND, Part.BEHIND, Part.KEEPS_UP]
    assert str(seated[0]) == "fetches and is behind, by how much is not known yet"


def test_a_voter_never_seen_is_said_so() -> None:
    quorum = replace(silent(healthy(), 2), histories={})
    assert quorum.poll is not None
    gone = tuple(
        replace(row, last_fetch_ms=None, log_end_offset=None) if row.key == key(2) else row
        for row in quorum.poll.voters
    )
    (finding,) = findings(replace(quorum, poll=replace(quorum.poll, voters=gone)), "failure-tolerance")
    assert finding.summary == (
        "2 of 3 voters keep up, 2 are needed: the next failure stops the quorum; "
        "voter 2 does not fetch, never seen fetching"
    )


def test_thresholds_reach_them() -> None:
    slow = behind(healthy(), 2, for_ms=8_000)
    assert told(slow) == []
    assert [each.rule for each in judged(slow, {"failure-tolerance.behind": 5}).findings] == ["failure-tolerance"]
    ahead = stalled(healthy(), for_ms=9_000)
    assert [each.rule for each in judged(ahead, {"high-watermark-stalled.still": 5}).findings] == [
        "high-watermark-stalled"
    ]
