"""RESOLVED texts say what is true now, and not what was."""

from dataclasses import replace

import pytest

from rules.evaluate import RULES
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.resolved_texts import RESOLVED, resolved_text
from tests.unit.rules.situation import (
    adding,
    failing,
    healthy,
    observer,
    recovering,
    refuses,
    registered,
    removed,
    unclean,
    view,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_views,
)

FENCED = with_broker(healthy(), 101, fenced=True)
UNKNOWN = Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0))
ENOUGH = "The condition is over: enough voters are in sync."


def test_every_rule_has_a_text() -> None:
    assert set(RESOLVED) == set(RULES)


@pytest.mark.kip("A051")
@pytest.mark.parametrize(
    ("rule", "subject", "quorum", "text"),
    [
        (
            "no-leader",
            "quorum",
            voter_not_fetching(healthy(), 1),
            "Controller 3 leads in epoch 7: metadata changes are possible. 2 of 3 voters are in sync; the quorum "
            "tolerates no further failure.",
        ),
        (
            "no-leader",
            "quorum",
            replace(healthy(), poll=None),
            "Controller 3 leads in epoch 7: metadata changes are possible.",
        ),
        (
            "broker-fenced",
            "broker 101",
            healthy(),
            "Broker 101 is not fenced: it serves clients. Brokers alive: 2 of 2 registered.",
        ),
        (
            "broker-fenced",
            "broker 103",
            FENCED,
            "Broker 103 is no longer registered. Brokers alive: 1 of 2 registered.",
        ),
        (
            "failure-tolerance",
            "quorum",
            healthy(5),
            "5 of 5 voters are in sync; the quorum tolerates 2 further failures.",
        ),
        (
            "voter-lagging",
            "voter 2",
            voter_not_fetching(healthy(5), 1),
            "Voter 2 is in sync. 4 of 5 voters are in sync; the quorum tolerates 1 further failure.",
        ),
        ("voter-lagging", "voter 9", healthy(), "Controller 9 is not a voter."),
        (
            "stale-voter-endpoint",
            "voter 1",
            healthy(),
            "Voter 1 can be reached at its recorded endpoint c1.test:9093.",
        ),
        (
            "stale-voter-endpoint",
            "voter 1",
            refuses(voter_not_fetching(healthy(), 1), 1),
            "Controller 1 is down. Its recorded endpoint c1.test:9093 is not known to be wrong.",
        ),
        ("ghost-registration", "controller 9", healthy(), "Controller 9 is no longer registered."),
        ("ghost-registration", "controller 9", registered(healthy(), 9), "Controller 9 fetches the metadata log."),
        (
            "unclean-election",
            "topic orders",
            recovering(unclean(healthy(), 0), 0),
            "No further unclean election of topic orders; 1 partition of it still RECOVERING. Records that were lost "
            "are not restored.",
        ),
        (
            "epoch-churn",
            "epoch 6",
            healthy(),
            "The leader epoch has not jumped again since epoch 6. Controller 3 leads in epoch 7.",
        ),
        ("observer-lagging", "broker 101", FENCED, "Broker 101 is fenced: it leads no partition."),
        ("broker-flapping", "broker 101", FENCED, "Broker 101 is no longer fenced too often. It is fenced now."),
        (
            "broker-flapping",
            "broker 101",
            healthy(),
            "Broker 101 is no longer fenced too often. It is not fenced: it serves clients.",
        ),
        ("broker-flapping", "broker 109", healthy(), "Broker 109 is no longer registered."),
        ("node-restarting", "broker 101", healthy(), "Broker 101 has not started again within the window."),
        ("node-restarting", "controller 2", healthy(), "Controller 2 has not started again within the window."),
        ("node-restarting", "controller 9", healthy(), "Controller 9 is no longer registered."),
        ("observer-lagging", "broker 101", healthy(), "Broker 101 follows the metadata log."),
        ("observer-lagging", "broker 109", healthy(), "Broker 109 is no longer registered."),
        ("no-leader", "quorum", UNKNOWN, "A controller leads the metadata quorum: metadata changes are possible."),
        (
            "epoch-churn",
            "quorum",
            replace(healthy(), leader_epoch=None),
            "Leader elections are no longer too frequent. Controller 3 leads.",
        ),
        ("epoch-churn", "quorum", UNKNOWN, "Leader elections are no longer too frequent. No leader is known now."),
        (
            "forced-reconfiguration",
            "voter set at offset 9000",
            healthy(),
            "No voter set was forced recently. The voters are 1, 2 and 3.",
        ),
        (
            "forced-reconfiguration",
            "voter set at offset 9000",
            UNKNOWN,
            "No voter set was forced recently. The voters are not known.",
        ),
        ("ghost-registration", "controller 2", healthy(), "Controller 2 is a voter."),
        (
            "high-watermark-stalled",
            "quorum",
            healthy(),
            "Records are committed: the high watermark is 10000. Controller 3 leads in epoch 7.",
        ),
        ("high-watermark-stalled", "quorum", UNKNOWN, "Records are committed. No leader is known now."),
        (
            "monitor-blind",
            "names",
            healthy(),
            "The resolver of the monitor's host answers: the names of all voters are observed.",
        ),
        ("monitor-blind", "rule no-leader", healthy(), "Rule no-leader is evaluated."),
        ("monitor-blind", "quorum", healthy(), "kraftwatch observes the quorum: the controllers answer."),
        ("node-records-conflict", "directory abc", healthy(), "At most one node has the directory id abc."),
        (
            "node-records-conflict",
            "voter 2",
            healthy(),
            "The recorded and the registered listener of voter 2 agree.",
        ),
        ("node-records-conflict", "voter 9", healthy(), "Controller 9 is not a voter."),
        (
            "voter-log-regressed",
            "voter 2",
            healthy(),
            "The log of voter 2 has all records that were committed before it went back.",
        ),
        (
            "voter-log-regressed",
            "voter 2",
            failing(healthy(), Reason.METADATA_LOST, "c1.test:9093"),
            "Committed metadata was lost: the quorum no longer has the records that voter 2 lacked.",
        ),
        ("voter-log-regressed", "voter 2", removed(healthy(), 2, ago_ms=20_000), "Controller 2 is not a voter."),
        (
            "observer-could-be-voter",
            "observer 3-dir",
            healthy(),
            "Controller 3 is a voter. The voters are 1, 2 and 3.",
        ),
        (
            "observer-could-be-voter",
            "observer 9-dir",
            healthy(),
            "Controller 9 is not a voter and does not fetch the metadata log.",
        ),
        (
            "observer-could-be-voter",
            "observer 9-dir",
            adding(healthy(), 9),
            "Controller 9 is being added to the voters.",
        ),
        (
            "observer-could-be-voter",
            "observer 9-dir",
            observer(healthy(), 9, directory="new"),
            "Controller 9 does not fetch with this directory any more.",
        ),
        ("quorum-shape", "quorum", healthy(), "The quorum has 3 voters and tolerates 1 failure."),
        ("quorum-shape", "quorum", UNKNOWN, "The number of voters is as it should be."),
        ("stale-voter-endpoint", "voter 9", healthy(), "Controller 9 is not a voter."),
        (
            "unclean-election",
            "topic orders",
            healthy(),
            "No further unclean election of topic orders; no partition of it RECOVERING. Records that were lost are "
            "not restored.",
        ),
        ("version-drift", "nodes", healthy(), "All registered nodes support the same feature levels."),
        ("version-drift", "metadata.version", healthy(), "metadata.version is finalized at level 27."),
        ("version-drift", "kraft.version", healthy(), "kraft.version is finalized at level 1."),
        (
            "version-drift",
            "broker 101",
            healthy(),
            "Broker 101 supports every finalized feature level, or is no longer registered.",
        ),
        (
            "views-disagree",
            "quorum",
            healthy(),
            "Every controller agrees on the leader. Controller 3 leads in epoch 7.",
        ),
        (
            "views-disagree",
            "controller 1",
            healthy(),
            "Controller 1 agrees on the leader. Controller 3 leads in epoch 7.",
        ),
        (
            "views-disagree",
            "controller 9",
            with_views(healthy(), view(9, leader=None, ago_ms=45_000)),
            "Controller 9 has not reported its leader recently. Controller 3 leads in epoch 7.",
        ),
        (
            "voter-change-stuck",
            "quorum",
            healthy(),
            "No change of the voter set is pending. The voters are 1, 2 and 3.",
        ),
        (
            "voter-change-stuck",
            "controller 2",
            healthy(),
            "Controller 2 is no longer removed from the voters again and again. The voters are 1, 2 and 3.",
        ),
        (
            "voter-change-stuck",
            "quorum",
            UNKNOWN,
            "No change of the voter set is pending. The voters are not known.",
        ),
        (
            "voter-disk-replaced",
            "controller 2",
            healthy(),
            "Controller 2 is a voter with directory id dirOf2AAAAAAAAAAAAAAAA.",
        ),
        ("voter-disk-replaced", "controller 9", healthy(), "Controller 9 is not a voter."),
        (
            "voter-lagging",
            "voter 2",
            voters_lagging(healthy(5), 2),
            "Voter 2 fetches. 4 of 5 voters are in sync; the quorum tolerates 1 further failure.",
        ),
        # The rule may have used an older poll than the text does.
        ("voter-lagging", "voter 2", replace(healthy(), poll=None), "The condition is over: voter 2."),
        ("failure-tolerance", "quorum", replace(healthy(), poll=None), ENOUGH),
        ("a-rule-of-an-older-version", "voter 2", healthy(), "The condition is over: voter 2."),
    ],
)
def test_text_is_about_the_quorum_now(rule: str, subject: str, quorum: Quorum, text: str) -> None:
    assert resolved_text(rule, subject, quorum) == text


@pytest.mark.parametrize("rule", RESOLVED)
def test_text_needs_no_observation(rule: str) -> None:
    """Nothing but the name of the cluster is known: the text must not fail, or the alert would not resolve."""
    for quorum in (UNKNOWN, healthy(), replace(healthy(), poll=None, committed=None)):
        for subject in ("quorum", "voter 2", "topic orders", "observer 4-dir", "x"):
            text = resolved_text(rule, subject, quorum)
            assert text.endswith(".")
            assert "None" not in text


def test_utc_text_agrees_with_the_calendar() -> None:
    from datetime import UTC, datetime

    days = range(951_696_000_000, 951_696_000_000 + 5 * 366 * 86_400_000, 86_400_000)
    for at in (0, 951_782_399_999, 1_709_164_800_000, 4_107_542_399_000, 253_402_300_799_999, *days):
        expected = datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        assert utc_text(at) == expected
    assert utc_text(-1) == "-1 ms since 1970"
    assert utc_text(253_402_300_800_000) == "253402300800000 ms since 1970"
