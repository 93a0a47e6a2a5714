"""A sheet: one cluster in full, as HTML. The page of a job shows it live, a report as it was."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from rules.model.identifiers import Millis
from streaming.web.cluster_view import Dossier
from streaming.web.templating import draw
from streaming.web.timeline import timeline

PARTITIONS = 100
SPANS_S: Mapping[str, int] = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
"""What a timeline may reach back, by its word."""
LIMITS: Mapping[str, int] = {"alerts_shown": 10, "alerts_listed": 200, "replicas_shown": 100}


def link(name: str) -> str:
    """The path of a cluster's page."""
    return f"/clusters/{quote(name, safe='')}"


def rule_link(rule: str) -> str:
    """The path of a rule's page."""
    return f"/rules/{quote(rule, safe='')}"


def drawn(
    one: Dossier,
    *,
    timeline_ms: tuple[Millis, Millis],
    span: str = "",
    topic: str = "",
    absent: Sequence[str] = (),
    still: bool = False,
    limits: Mapping[str, int] = LIMITS,
    partitions: int = PARTITIONS,
    rule_link: Callable[[str], str] = rule_link,
) -> str:
    """One cluster in full, as HTML.

    Args:
        one: the cluster.
        timeline_ms: from when to when the timeline goes.
        span: which of the offered spans that is; empty for none of them.
        topic: only recovering partitions whose name has this.
        absent: what its source cannot tell, in words.
        still: it is a state of the past: ages are given as times.
        limits: how much is shown of what there may be thousands.
        partitions: of which recovering ones.
        rule_link: where a rule is explained.
    """
    recovering = [each for each in one.portrait.get("recovering") or () if topic.lower() in _partition(each)]
    return draw(
        "cluster.html",
        one=one,
        line=timeline(one, *timeline_ms),
        spans=[*SPANS_S] if span else [],
        span=span,
        topic=topic,
        over=one.over(timeline_ms[0]),
        partitions=recovering[:partitions],
        partitions_found=len(recovering) if topic else one.portrait.get("recovering_partitions") or 0,
        absent=absent,
        still=still,
        rule_link=rule_link,
        **limits,
    )


def _partition(each: Mapping[str, Any]) -> str:
    return f"{each['topic'] or each['topic_id']}-{each['partition']}".lower()
