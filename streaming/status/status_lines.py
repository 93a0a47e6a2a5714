"""The lines of `kraftwatch status`: leader, lag, votes, brokers and versions, each with its name."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from connectors.sinks.evidence_format import duration, visible
from rules.formatting import plural
from streaming.status.cluster_status import ClusterStatus
from streaming.status.voter_types import BrokerCounts

NONE = "–"


def status_lines(status: ClusterStatus) -> Iterable[tuple[str, str | Text]]:
    """Yields name and value of each line."""
    leader = "none" if status.leader_id is None else str(status.leader_id)
    yield "Leader", Text(leader, "bold" if status.leader_id is not None else "bold red")
    yield "Leader epoch", or_unknown(status.leader_epoch)
    yield "High watermark", or_unknown(status.high_watermark)
    lag = status.max_follower_lag
    lag_text = None if lag is None else f"{plural(lag, 'record')}, {duration_text(status.max_follower_lag_time_ms)}"
    yield "Max follower lag", or_unknown(lag_text)
    yield "Votes", _votes(status)
    yield "Next election" if status.leader_id is None else "If all restarted now", _election(status)
    yield "Brokers", _brokers(status.brokers)
    recovering = status.recovering_partitions
    text = or_unknown(None if recovering is None else plural(recovering, "partition"))
    yield "Recovering", Text(text, "yellow" if recovering else "")
    levels = f"kraft.version {or_unknown(status.kraft_version)}, metadata.version {or_unknown(status.metadata_version)}"
    yield "Versions", or_unknown(None if status.mode is None else f"{status.mode} quorum, {levels}")


def _brokers(brokers: BrokerCounts | None) -> str:
    if brokers is None:
        return "unknown"
    fenced = f", fenced: {node_ids(brokers.fenced)}" if brokers.fenced else ""
    return f"{brokers.registered} registered{fenced}"


def _votes(status: ClusterStatus) -> str | Text:
    if status.voters is None:
        return "the voters are unknown"
    left, tolerated = status.failures_left, status.failures_tolerated
    if left is None or tolerated is None:
        return f"{status.voters} voters, {status.votes_needed} votes needed; how many voters are active is unknown"
    more = "no further voter may fail" if left <= 0 else f"{left} more may fail"
    text = f"{status.voters_fetching} of {status.voters} voters are active, {status.votes_needed} votes needed: {more}"
    return Text(text, "" if left >= tolerated else "yellow")


def _election(status: ClusterStatus) -> str | Text:
    if status.electable is None:
        return "unknown"
    if status.electable:
        return "a leader could be elected"
    refusing = [one.id for one in status.endpoints if one.probe_result == "refuses connections"]
    if status.leader_id is not None or not refusing:
        return Text("no leader could be elected", "bold red")
    running = len(status.endpoints) - len(refusing)
    return Text(
        f"no leader can be elected: {running} of {status.voters} voters accept connections, {status.votes_needed} "
        f"votes are needed; connections are refused by {node_ids(refusing)}",
        "bold red",
    )


def or_unknown(value: object) -> str:
    """Returns a value as text without control characters, or `unknown` for None."""
    return "unknown" if value is None else visible(str(value))


def duration_text(ms: int | None) -> str:
    """Returns a duration in milliseconds as text."""
    if ms is None:
        return NONE
    return f"{ms} ms" if ms < 1_000 else duration(ms)


def node_ids(nodes: Sequence[int] | None) -> str:
    """Returns node ids with commas, `none` for no node and `unknown` for None."""
    return "unknown" if nodes is None else ",".join(map(str, nodes)) or "none"
