"""One cluster as HTML: the job's page shows its present state, a report a recorded one."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from rules.model.identifiers import Millis
from streaming.status.history_types import RecoveringPartition
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render
from streaming.web.timeline import timeline

PARTITION_LIMIT = 100
SPANS_S: Mapping[str, int] = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
"""The spans of a timeline, by the label of their link."""
LIMITS: Mapping[str, int] = {"alerts_shown": 10, "alerts_listed": 200, "replicas_shown": 100}


def link(name: str) -> str:
    """Returns the path of a cluster's page."""
    return f"/clusters/{quote(name, safe='')}"


def rule_link(rule: str) -> str:
    """Returns the path of a rule's page."""
    return f"/rules/{quote(rule, safe='')}"


def render_cluster(
    one: ClusterView,
    *,
    timeline_ms: tuple[Millis, Millis],
    span: str = "",
    topic: str = "",
    absent: Sequence[str] = (),
    recorded: bool = False,
    limits: Mapping[str, int] = LIMITS,
    partition_limit: int = PARTITION_LIMIT,
    rule_link: Callable[[str], str] = rule_link,
) -> str:
    """Returns one cluster as HTML.

    Args:
        one: the cluster.
        timeline_ms: begin and end of the timeline.
        span: which of the offered spans that is; empty for none of them.
        topic: only recovering partitions whose name contains this.
        absent: what the source does not hold, as text.
        recorded: the state is a recorded one: ages are shown as times.
        limits: how many items of long lists are shown.
        partition_limit: how many recovering partitions are shown.
        rule_link: returns the link to a rule's explanation.
    """
    status = one.status
    found = [each for each in (status.recovering if status else ()) if topic.lower() in _partition(each)]
    total = (status.recovering_partitions if status else None) or 0
    return render(
        "cluster.html",
        one=one,
        line=timeline(one, *timeline_ms),
        spans=[*SPANS_S] if span else [],
        span=span,
        topic=topic,
        resolved=one.resolved_since(timeline_ms[0]),
        partitions=found[:partition_limit],
        partitions_found=len(found) if topic else total,
        absent=absent,
        recorded=recorded,
        rule_link=rule_link,
        **limits,
    )


def _partition(each: RecoveringPartition) -> str:
    return f"{each.topic or each.topic_id}-{each.partition}".lower()
