"""The figures of `kraftwatch status`: leader, lag, votes, versions, each in one line, as words for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rich.text import Text

from connectors.sinks.evidence_format import duration, visible
from rules.formatting import counted

Shown: TypeAlias = Mapping[str, Any]
"""What a function of `streaming.status.overview` returned."""

NONE = "–"


def figures(shown: Shown) -> Iterable[tuple[str, str | Text]]:
    """Name and value of each line, from what `overview.status` returned."""
    leader = "none" if shown["leader_id"] is None else str(shown["leader_id"])
    yield "Leader", Text(leader, "bold" if shown["leader_id"] is not None else "bold red")
    yield "Leader epoch", worded(shown["leader_epoch"])
    yield "High watermark", worded(shown["high_watermark"])
    lag = shown["max_follower_lag"]
    behind = None if lag is None else f"{counted(lag, 'record')}, {span(shown['max_follower_lag_time_ms'])}"
    yield "Max follower lag", worded(behind)
    yield "Votes", _votes(shown)
    yield "An election now", _election(shown)
    yield "Brokers", _brokers(shown["brokers"])
    recovering = shown["recovering_partitions"]
    said = worded(None if recovering is None else counted(recovering, "partition"))
    yield "Recovering", Text(said, "yellow" if recovering else "")
    versions = f"kraft.version {worded(shown['kraft_version'])}, metadata.version {worded(shown['metadata_version'])}"
    yield "Versions", worded(None if shown["mode"] is None else f"{shown['mode']} quorum, {versions}")


def _brokers(brokers: Mapping[str, Any] | None) -> str:
    if brokers is None:
        return "unknown"
    fenced = f", fenced: {ids(brokers['fenced'])}" if brokers["fenced"] else ""
    return f"{brokers['registered']} registered{fenced}"


def _votes(shown: Shown) -> str | Text:
    if shown["voters"] is None:
        return "the voters are not known"
    left = shown["failures_left"]
    if left is None:
        return f"{shown['voters']} voters, {shown['votes_needed']} votes needed; how many take part is not known"
    more = "nothing more may fail" if left <= 0 else f"{left} more may fail"
    said = f"{shown['voters_fetching']} of {shown['voters']} voters take part, {shown['votes_needed']} votes needed"
    return Text(f"{said}: {more}", "" if left >= shown["failures_tolerated"] else "yellow")


def _election(shown: Shown) -> str | Text:
    if shown["electable"] is None:
        return "unknown"
    if not shown["electable"]:
        return Text("could not be won by anybody", "bold red")
    # Unless a leader tells who fetches, nobody knows of a voter that refuses whether it has only moved or is dead:
    # `electable` takes it for moved.
    refusing = [one["id"] for one in shown["endpoints"] if one["seen"] == "refuses connections"]
    lacking = shown["votes_needed"] - (shown["voters"] - len(refusing))
    if shown["voters_fetching"] is None and lacking > 0:
        return Text(f"only with {lacking} of the voters that refuse connections now: {ids(refusing)}", "bold red")
    return "could be won"


def worded(value: object) -> str:
    """A value, or that it is unknown; no terminal's control code."""
    return "unknown" if value is None else visible(str(value))


def span(ms: int | None) -> str:
    """A duration in milliseconds, in words."""
    if ms is None:
        return NONE
    return f"{ms} ms" if ms < 1_000 else duration(ms)


def ids(nodes: Sequence[int] | None) -> str:
    """Node ids, with commas."""
    return "unknown" if nodes is None else ",".join(map(str, nodes)) or "none"
