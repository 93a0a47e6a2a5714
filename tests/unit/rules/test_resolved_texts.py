"""The texts of resolved alerts say what is true now, and not what was."""

from dataclasses import replace

import pytest

from rules.evaluate import RULES, resolved_text
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
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


OF_A_HEALTHY_QUORUM = {
    "broker-fenced: broker 101": "Broker 101 is not fenced: it serves clients. Brokers alive: 2 of 2 registered.",
    "voter-lagging: voter 9": "Controller 9 is not a voter.",
    "stale-voter-endpoint: voter 1": "Voter 1 can be reached at its recorded endpoint c1.test:9093.",
    "ghost-registration: controller 9": "Controller 9 is no longer registered.",
    "epoch-churn: epoch 6": "The leader epoch has not jumped again since epoch 6. Controller 3 leads in epoch 7.",
    "broker-flapping: broker 101": "Broker 101 is no longer fenced too often. It is not fenced: it serves clients.",
    "broker-flapping: broker 109": "Broker 109 is no longer registered.",
    "node-restarting: broker 101": "Broker 101 has not started again within the window.",
    "node-restarting: controller 2": "Controller 2 has not started again within the window.",
    "node-restarting: controller 9": "Controller 9 is no longer registered.",
    "observer-lagging: broker 101": "Broker 101 follows the metadata log.",
    "observer-lagging: broker 109": "Broker 109 is no longer registered.",
    "forced-reconfiguration: voter set at offset 9000": "No voter set was forced recently. The voters are 1, 2 and 3.",
    "ghost-registration: controller 2": "Controller 2 is a voter.",
    "controller-stuck: active controller": "The active controller appends records. Controller 3 leads in epoch 7.",
    "high-watermark-stalled: quorum": (
        "Records are committed: the high watermark is 10000. Controller 3 leads in epoch 7."
    ),
    "monitor-blind: names": "The resolver of the monitor's host answers: the names of all voters are observed.",
    "monitor-blind: rule no-leader": "Rule no-leader is evaluated.",
    "monitor-blind: quorum": "kraftwatch observes the quorum: the controllers answer.",
    "operation-unfinished: partition reassignment": "No partition is being reassigned.",
    "operation-unfinished: broker 101": "Broker 101 is alive.",
    "operation-unfinished: broker 109": "Broker 109 is no longer registered.",
    "operation-unfinished: migration from ZooKeeper": "The migration from ZooKeeper is in state none.",
    "no-broker: brokers": "Brokers alive: 2 of 2 registered.",
    "node-not-registered: node 2": "Node 2 is a voter and a controller.",
    "node-not-registered: node 101": "Node 101 is a broker.",
    "node-not-registered: node 109": "Node 109 does not fetch the metadata log any more.",
    "node-records-conflict: directory abc": "At most one node has the directory id abc.",
    "node-records-conflict: voter 2": "The recorded and the registered listener of voter 2 agree.",
    "node-records-conflict: voter 9": "Controller 9 is not a voter.",
    "voter-log-regressed: voter 2": "The log of voter 2 has all records that were committed before it went back.",
    "observer-could-be-voter: observer 3-dir": "Controller 3 is a voter. The voters are 1, 2 and 3.",
    "observer-could-be-voter: observer 9-dir": "Controller 9 is not a voter and does not fetch the metadata log.",
    "quorum-shape: quorum": "The quorum has 3 voters and tolerates 1 failure.",
    "stale-voter-endpoint: voter 9": "Controller 9 is not a voter.",
    "unclean-election: topic orders": (
        "No further unclean election of topic orders; no partition of it RECOVERING. Records that were lost are not "
        "restored."
    ),
    "version-drift: nodes": "All registered nodes support the same feature levels.",
    "version-drift: metadata.version": "metadata.version is finalized at level 27.",
    "version-drift: kraft.version": "kraft.version is finalized at level 1.",
    "version-drift: release upgrade": "kraft.version is 1: the quorum stays dynamic.",
    "version-drift: broker 101": "Broker 101 supports every finalized feature level, or is no longer registered.",
    "views-disagree: quorum": "Every controller agrees on the leader. Controller 3 leads in epoch 7.",
    "views-disagree: controller 1": "Controller 1 agrees on the leader. Controller 3 leads in epoch 7.",
    "voter-change-stuck: quorum": "No change of the voter set is pending. The voters are 1, 2 and 3.",
    "voter-change-stuck: controller 2": (
        "Controller 2 is no longer removed from the voters again and again. The voters are 1, 2 and 3."
    ),
    "voter-disk-replaced: controller 2": "Controller 2 is a voter with directory id dirOf2AAAAAAAAAAAAAAAA.",
    "voter-disk-replaced: controller 9": "Controller 9 is not a voter.",
    "a-rule-of-an-older-version: voter 2": "The condition is over: voter 2.",
}
OF_NO_OBSERVATION = {
    "no-leader: quorum": "A controller leads the metadata quorum: metadata changes are possible.",
    "epoch-churn: quorum": "Leader elections are no longer too frequent. No leader is known now.",
    "forced-reconfiguration: voter set at offset 9000": "No voter set was forced recently. The voters are not known.",
    "controller-stuck: active controller": "The active controller appends records. No leader is known now.",
    "high-watermark-stalled: quorum": "Records are committed. No leader is known now.",
    "quorum-shape: quorum": "The number of voters is as it should be.",
    "voter-change-stuck: quorum": "No change of the voter set is pending. The voters are not known.",
}
OF_OTHER_QUORUMS: list[tuple[Quorum, str, str]] = [
    (
        voter_not_fetching(healthy(), 1),
        "no-leader: quorum",
        "Controller 3 leads in epoch 7: metadata changes are possible. 2 of 3 voters are in sync; the quorum tolerates "
        "no further failure.",
    ),
    (
        healthy(1),
        "no-leader: quorum",
        "Controller 1 leads in epoch 7: metadata changes are possible. 1 of 1 voter is in sync; the quorum tolerates "
        "no further failure.",
    ),
    (
        replace(healthy(), poll=None),
        "no-leader: quorum",
        "Controller 3 leads in epoch 7: metadata changes are possible.",
    ),
    (replace(healthy(), poll=None), "voter-lagging: voter 2", "The condition is over: voter 2."),
    (replace(healthy(), poll=None), "failure-tolerance: quorum", ENOUGH),
    (FENCED, "broker-fenced: broker 103", "Broker 103 is no longer registered. Brokers alive: 1 of 2 registered."),
    (FENCED, "observer-lagging: broker 101", "Broker 101 is fenced: it leads no partition."),
    (FENCED, "broker-flapping: broker 101", "Broker 101 is no longer fenced too often. It is fenced now."),
    (
        adding(healthy(), 4),
        "failure-tolerance: quorum",
        "4 of 4 voters are in sync; the quorum tolerates 1 further failure.",
    ),
    (healthy(5), "failure-tolerance: quorum", "5 of 5 voters are in sync; the quorum tolerates 2 further failures."),
    (
        voter_not_fetching(healthy(5), 1),
        "voter-lagging: voter 2",
        "Voter 2 is in sync. 4 of 5 voters are in sync; the quorum tolerates 1 further failure.",
    ),
    (
        refuses(voter_not_fetching(healthy(), 1), 1),
        "stale-voter-endpoint: voter 1",
        "Controller 1 is down. Its recorded endpoint c1.test:9093 is not known to be wrong.",
    ),
    (registered(healthy(), 9), "ghost-registration: controller 9", "Controller 9 fetches the metadata log."),
    (
        recovering(unclean(healthy(), 0), 0),
        "unclean-election: topic orders",
        "No further unclean election of topic orders; 1 partition of it still RECOVERING. Records that were lost are "
        "not restored.",
    ),
    (
        replace(healthy(), leader_epoch=None),
        "epoch-churn: quorum",
        "Leader elections are no longer too frequent. Controller 3 leads.",
    ),
    (
        failing(healthy(), Reason.METADATA_LOST, "c1.test:9093"),
        "voter-log-regressed: voter 2",
        "Committed metadata was lost: the quorum no longer has the records that voter 2 lacked.",
    ),
    (removed(healthy(), 2, ago_ms=20_000), "voter-log-regressed: voter 2", "Controller 2 is not a voter."),
    (adding(healthy(), 9), "observer-could-be-voter: observer 9-dir", "Controller 9 is being added to the voters."),
    (
        observer(healthy(), 9, directory="new"),
        "observer-could-be-voter: observer 9-dir",
        "Controller 9 does not fetch with this directory any more.",
    ),
    (
        with_views(healthy(), view(9, leader=None, ago_ms=45_000)),
        "views-disagree: controller 9",
        "Controller 9 has not reported its leader recently. Controller 3 leads in epoch 7.",
    ),
    (
        voters_lagging(healthy(5), 2),
        "voter-lagging: voter 2",
        "Voter 2 fetches. 4 of 5 voters are in sync; the quorum tolerates 1 further failure.",
    ),
]


@pytest.mark.parametrize(
    ("quorum", "alert", "text"),
    [
        *((healthy(), *one) for one in OF_A_HEALTHY_QUORUM.items()),
        *((UNKNOWN, *one) for one in OF_NO_OBSERVATION.items()),
        *OF_OTHER_QUORUMS,
    ],
)
def test_text_is_about_the_quorum_now(quorum: Quorum, alert: str, text: str) -> None:
    rule, _, subject = alert.partition(": ")
    assert resolved_text(rule, subject, quorum) == text


@pytest.mark.parametrize("rule", RULES)
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
