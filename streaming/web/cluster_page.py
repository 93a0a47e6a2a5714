"""One cluster as HTML: the job's page shows its present state, a report a recorded one."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from rules.model.identifiers import Millis
from streaming.status.history_types import RecoveringPartition
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render
from streaming.web.timeline import Axis, time_control, timeline

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
    on_timeline: ClusterView | None = None,
    held: tuple[Millis, Millis] | None = None,
    at_ms: Millis | None = None,
    limits: Mapping[str, int] = LIMITS,
    partition_limit: int = PARTITION_LIMIT,
    rule_link: Callable[[str], str] = rule_link,
) -> str:
    """Returns one cluster as HTML.

    Args:
        timeline_ms: begin and end of the timeline.
        span: which of the offered spans that is; empty for none of them.
        topic: only recovering partitions whose name contains this.
        absent: what the source does not hold, as text.
        recorded: the state is a recorded one: ages are shown as times.
        on_timeline: the cluster whose events the timeline shows; None: `one`.
        held: the times of the first and the newest observation in the journal; None: no past state can be shown.
        at_ms: the past time of which `one` is the state; None: the present, or a report.
    """
    status = one.status
    found = [each for each in (status.recovering if status else ()) if topic.lower() in _partition(each)]
    total = (status.recovering_partitions if status else None) or 0
    line = timeline(on_timeline or one, *timeline_ms)
    control = time_control(held, timeline_ms, at_ms, (at for at, _ in line.events))
    return render(
        "cluster.html",
        one=one,
        line=line,
        control=control,
        cursor=None if at_ms is None else Axis(from_ms=timeline_ms[0], to_ms=timeline_ms[1]).x(at_ms),
        spans=[*SPANS_S] if span else [],
        span=span,
        topic=topic,
        resolved=one.resolved_since(timeline_ms[0]),
        partitions=found[:partition_limit],
        partitions_found=len(found) if topic else total,
        absent=absent,
        recorded=recorded,
        at_ms=at_ms,
        rule_link=rule_link,
        **limits,
    )


def _partition(each: RecoveringPartition) -> str:
    return f"{each.topic or each.topic_id}-{each.partition}".lower()
