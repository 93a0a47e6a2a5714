"""unclean-election: news for a while, one alert a topic, beside what recovers."""

from dataclasses import replace

import pytest

from rules.model.identifiers import TopicId
from tests.unit.rules.situation import findings, healthy, judged, recovering, told, unclean, unknown, unseen_for

RULE = "unclean-election"
TOLD = [f"info {RULE}: topic orders"]


@pytest.mark.kip("B002")
@pytest.mark.parametrize(("ago_ms", "said"), [(0, TOLD), (600_000, TOLD), (600_001, [])])
def test_it_is_news_for_ten_minutes_by_the_logs_own_time(ago_ms: int, said: list[str]) -> None:
    assert told(unclean(healthy(), 0, ago_ms=ago_ms)) == said


def test_whether_it_recovered_since_is_evidence_and_another_rules_alert() -> None:
    over, stuck = unclean(healthy(), 0, 3), recovering(unclean(healthy(), 0, 3), 0, 3)
    assert findings(over, RULE)[0].evidence["partitions_recovering_now"] == 0
    assert findings(stuck, RULE)[0].evidence["partitions_recovering_now"] == 2
    assert told(stuck) == ["critical partition-stuck-recovering: topic orders", *TOLD]


def test_a_burst_is_counted_in_one_alert() -> None:
    (finding,) = findings(unclean(healthy(), *range(7)), RULE)
    assert finding.summary.startswith("7 unclean elections of topic orders, the newest 45 s ago: broker 102 leads")


def test_a_topic_without_a_name_is_named_by_its_id() -> None:
    (finding,) = findings(unclean(healthy(), 0, topic=None), RULE)
    assert finding.subject == "topic with id dG9waWMtb3JkZXJzAAAAAA"
    assert not any(step.startswith("kafka-topics.sh") for step in finding.remedy)


def test_thresholds_reach_it_and_a_log_that_is_not_followed_is_not_judged() -> None:
    assert judged(unclean(healthy(), 0), {f"{RULE}.told_for": 30}).findings == ()
    assert (RULE, None) in unknown(unseen_for(unclean(healthy(), 0), log_ms=11_000, poll_ms=None))


def test_topics_are_told_in_the_order_of_their_names() -> None:
    """In the past the newest stands last; alerts that change places from one look to the next cannot be read."""
    orders = unclean(healthy(), 0)
    (one,) = orders.past.unclean
    past = replace(orders.past, unclean=(replace(one, topic="payments", topic_id=TopicId("another")), one))
    assert [each.subject for each in findings(replace(orders, past=past), RULE)] == ["topic orders", "topic payments"]
