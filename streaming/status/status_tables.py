"""The tables and lines that `status`, `replication` and `partitions` print of a `ClusterStatus`.

Text from outside is printed as data: never as markup, never as a terminal's control code.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from connectors.logdir.log_dir_files import ElectionState
from rules.answers.worlds import undecided_text
from rules.claims.words import NO_LEADER_ELECTED
from rules.evaluate import INHIBITED
from rules.facts.following import Following
from rules.formatting import and_join, duration, iso, ms_text, needed_text, plural, utc_text, visible
from rules.model.identifiers import Millis
from rules.model.membership import Voter
from rules.model.witness import Reached
from streaming.status.cluster_status import (
    BrokerCounts,
    ClusterStatus,
    QuorumMode,
    RecoveringPartition,
    StatusSource,
    UnknownStatus,
)
from streaming.status.health import Health, health, records_at_risk
from streaming.status.log_dir_status import LogDirStatus

NONE = "–"
BADGES = {
    Health.CRITICAL: (" CRITICAL ", "bold white on red"),
    Health.WARNING: (" WARNING ", "bold black on yellow"),
    Health.UNKNOWN: (" UNKNOWN ", "bold white on magenta"),
    Health.HEALTHY: (" HEALTHY ", "bold black on green"),
}
_STYLES = {
    "ok": "green",
    "fetching": "green",
    "Leader": "bold green",
    "stale": "bold red",
    "not fetching": "bold red",
    "lagging": "yellow",
    "down": "bold red",
    "unknown": "magenta",
    "critical": "bold red",
    "warning": "yellow",
    "info": "blue",
}
NOTHING_KNOWN = (
    "  no leader answered, and no recorded state was given, so it is not known who votes and what each did last: a job "
    "that runs knows (its page, or --journal DIR)\n"
    "  what to do: kraftwatch doctor, with the same options, says what fails at each address and how to fix it\n"
)
_VOTER_SETS_SHOWN = 4
"""How many voter sets of a log directory are printed, the newest ones."""
_MULTILINE = frozenset({"Probe result", "Topic", "For", "Since (UTC)", "ISR before", "ELR before"})
"""Columns whose cells may take several lines."""


def status_table(status: ClusterStatus) -> RenderableType:
    """Returns health and findings first, then the quorum's state, and one row for each voter."""
    return Group(
        _headline(status),
        *_findings(status),
        Text(),
        _grid(status_lines(status)),
        *(() if status.log_dir is None else (Text(), _grid(log_dir_lines(status.log_dir)))),
        Text(),
        _voters(status),
        *_other_replicas(status),
        *unknown_lines(status.unknown, most=4),
        Text(),
    )


def replication_table(status: ClusterStatus) -> RenderableType:
    """Returns one row for each replica: the order and columns of `describe --replication`, and three more columns."""
    names = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "Status", "LagTime", "LastFetch", "Endpoint")
    table = _table(names, right=("NodeId", "LogEndOffset", "Lag", "LagTime", "LastFetch"))
    for row in status.replicas:
        age = NONE if row.fetch_age_ms is None else f"{duration_text(row.fetch_age_ms)} ago"
        fetched = Text(age, _STYLES["not fetching"] if row.following is Following.NOT_FETCHING else "")
        lag_time = duration_text(row.lag_time_ms)
        cells = (row.node_id, row.directory_id, row.log_end_offset, row.lag, row.status, lag_time, fetched)
        _row(table, *cells, row.endpoint)
    if not status.replicas:
        empty = Text("  DescribeQuorum was not answered: the replicas are unknown", style="magenta")
        return Group(_headline(status), Text(), empty, Text())
    source = f"reported by leader {status.leader_id} of epoch {or_unknown(status.leader_epoch)}"
    if status.leader_id is None:
        at = "" if status.described_at_ms is None else f" at {utc_text(status.described_at_ms)}"
        source = f"reported by the last leader{at}: no controller leads now"
    note = Text(f"  {source}; times by the leader's clock", style="dim")
    return Group(_headline(status), Text(), table, note, Text())


_PARTITION_COLUMNS: Mapping[str, Callable[[RecoveringPartition], object]] = {
    "Topic": lambda one: one.topic or one.topic_id,
    "Partition": lambda one: one.partition,
    "For": lambda one: f"{'at least ' if one.at_least else ''}{duration_text(one.for_ms)}",
    "Since (UTC)": lambda one: utc_text(one.since_timestamp_ms).removesuffix(" UTC"),
    "Leader": lambda one: one.leader,
    "ISR": lambda one: node_ids(one.isr),
    "Replicas": lambda one: node_ids(one.replicas),
    "Alive": lambda one: node_ids(one.replicas_alive),
    "ISR before": lambda one: node_ids(one.previous_isr),
    "ELR before": lambda one: node_ids(one.previous_elr),
}


def partitions_table(status: ClusterStatus) -> RenderableType:
    """Returns one row for each recovering partition, longest first."""
    if not status.recovering:
        unread = status.source is StatusSource.NONE or any("metadata log" in each for each in status.missing)
        none = "the metadata log was not read to its end" if unread else "no partition is recovering"
        return Group(_headline(status), Text(), Text(f"  {none}"), Text())
    table = _table([*_PARTITION_COLUMNS], right=("Partition", "For", "Leader"))
    for partition in status.recovering:
        _row(table, *(cell(partition) for cell in _PARTITION_COLUMNS.values()))
    return Group(_headline(status), Text(), table, Text())


def unknown_lines(unknown: Iterable[UnknownStatus], most: int = 20) -> Iterable[Text]:
    """Yields one line for each reason that rules are unknown; a line names at most so many rules."""
    by_why: dict[str, list[str]] = {}
    listed_already: set[str] = set()
    for status in unknown:
        name = f"{status.rule} ({status.subject})" if status.subject else status.rule
        if name not in listed_already:
            listed_already.add(name)
            by_why.setdefault(status.why, []).append(name)
    # What another finding explains is no gap in what is observed.
    for why, names in sorted(by_why.items(), key=lambda each: each[0].startswith(INHIBITED)):
        if why.startswith(INHIBITED):
            text = f"  not evaluated {and_join(names, most)}: {why.removeprefix(INHIBITED)} explains it"
            yield Text(visible(text), "dim")
        else:
            yield Text(visible(f"  unknown {and_join(names, most)}: {why}"), "magenta")


def hold_text(hold_s: float) -> str:
    """Returns how long a finding must last before a job's alert fires, to be appended; empty if it fires at once."""
    return f" · fires once it has lasted {ms_text(Millis(round(hold_s * 1000)))}" if hold_s else ""


def when_text(status: ClusterStatus, rule: str, subject: str, hold_s: float) -> str:
    """Returns since when a finding's alert fires, or how long it must last before it does, to be appended."""
    alert = next((one for one in status.firing if (one.rule, one.subject) == (rule, subject)), None)
    return hold_text(hold_s) if alert is None else f" · fires, since {utc_text(alert.started_at_ms)}"


def response_lines(status: ClusterStatus, rule: str, subject: str) -> Iterable[Text]:
    """Yields by whom the alert of a finding is acknowledged, and by whom it is silenced."""
    for one in status.acknowledged:
        if (one.rule, one.subject) == (rule, subject):
            yield Text(f"    acknowledged {one.who}{_noted(one.comment)}", "green")
    for alert in status.firing:
        if (alert.rule, alert.subject) == (rule, subject) and alert.silence is not None:
            yield Text(f"    silenced {alert.silence.who}{_noted(alert.silence.comment)}", "green")


def _noted(comment: str) -> str:
    return f": {visible(comment)}" if comment else ""


def remedy_line(step: str) -> tuple[str, str]:
    """Returns a step of a remedy as it is printed, a sentence or a command, and its style."""
    if step.startswith("#"):
        return f"- {visible(step.removeprefix('#').strip())}", ""
    return f"$ {visible(step)}", "green"


def _headline(status: ClusterStatus) -> Text:
    text = Text.assemble(BADGES[health(status)], (f" {visible(status.cluster)}", "bold"))
    observed = "" if status.observed_at_ms is None else iso(status.observed_at_ms)
    text.append(f"  {visible(status.cluster_id or 'cluster id unknown')}  {observed}\n", "dim")
    if status.source is StatusSource.JOURNAL:
        text.append(f"  {recorded_note(status.age_ms, status.missing)}\n", "bold magenta")
    elif status.source is StatusSource.LOG_DIR:
        newest = (
            "no record of its log is read"
            if status.age_ms is None
            else f"its newest record is {duration(status.age_ms)} old"
        )
        text.append(f"  read from one disk; {newest}\n", "bold magenta")
    elif status.source is StatusSource.NONE:
        text.append(NOTHING_KNOWN, "bold magenta")
    elif status.recorded_at_ms is not None:
        text.append(f"  {continued_note(status.recorded_at_ms, status.observed_at_ms)}\n", "dim")
    for each in status.missing:
        text.append(f"  missing: {visible(each)}\n", "magenta")
    at_risk = records_at_risk(status)
    if at_risk is not None:
        text.append(f"  {at_risk}\n", "bold")
    text.rstrip()
    return text


def continued_note(recorded_at_ms: Millis, observed_at_ms: Millis | None) -> str:
    """Returns until when a state was recorded by a job, and whether a query has continued it."""
    later = "" if observed_at_ms == recorded_at_ms else ", and by this command since"
    return f"observed by the job until {utc_text(recorded_at_ms)}{later}"


def recorded_note(age_ms: int | None, missing: Iterable[str]) -> str:
    """Returns that a state was recorded, its age and why it is shown.

    Args:
        missing: of the status. What a journal no longer holds is missing too, but then no node was queried.
    """
    queried = any(each.endswith("was not answered") for each in missing)
    age = "of an unknown age" if age_ms is None else f"{duration(age_ms)} old"
    return f"recorded state, {age}: {'no leader answered now' if queried else 'no node was queried'}"


def _voters(status: ClusterStatus) -> RenderableType:
    if not status.endpoints:
        ids = ", ".join(str(voter.id) for voter in status.current_voters)
        return Text(f"  voters: {ids or 'unknown'} (no VotersRecord was read)")
    # Without a leader the column shows the last DescribeQuorum: what it says was true until then.
    polled_ms = status.described_at_ms if status.leader_id is None else None
    activity = "Activity" if polled_ms is None else f"Until {utc_text(polled_ms)}"
    endpoint = "Configured endpoint" if status.mode is QuorumMode.STATIC else "Recorded endpoint"
    names = ("Voter", "DirectoryId", endpoint, "Status", "Probe result", activity)
    elsewhere = any(one.registered not in (None, one.recorded) for one in status.endpoints)
    table = _table((*names, "Registered at") if elsewhere else names, right=("Voter",))
    for one in status.endpoints:
        active = Text(one.following, _STYLES.get(one.following, ""))
        cells = [one.id, one.directory_id, one.recorded, one.verdict, one.probe_result, active]
        differs = one.registered not in (None, one.recorded)
        registered = Text(or_unknown(one.registered), _STYLES["stale"] if differs else "")
        _row(table, *cells, *((registered,) if elsewhere else ()))
    return table


def _other_replicas(status: ClusterStatus) -> Iterable[Text]:
    pending = status.pending_voters
    silent = {(row.node_id, row.directory_id) for row in status.replicas if row.following is Following.NOT_FETCHING}
    possible = (f"{key}{' (not fetching)' * ((key.id, key.directory_id) in silent)}" for key in status.could_be_voters)
    others = (voter.id for voter in status.registrations_without_voter)
    lists: tuple[tuple[str, Iterable[object], str], ...] = (
        ("observers", status.current_observers, ""),
        ("could be voters", possible, "yellow"),
        ("voters to be added, not committed yet", pending.added if pending else (), "yellow"),
        ("voters to be removed, not committed yet", pending.removed if pending else (), "yellow"),
        ("registered controllers that are not voters", others, "yellow"),
    )
    for name, rows, style in lists:
        if named := ", ".join(map(str, rows)):
            yield Text(f"  {name}: {visible(named)}", style)
    if pending and pending.moved:
        yield Text(f"  voters with a new endpoint, not committed yet: {', '.join(map(str, pending.moved))}", "yellow")
    if status.source is not StatusSource.LIVE and status.initial_controllers:
        yield Text(f"  the recorded voters as --initial-controllers: {visible(status.initial_controllers)}")


def _findings(status: ClusterStatus) -> Iterable[RenderableType]:
    for finding in status.findings:
        style, when = _STYLES[finding.severity], when_text(status, finding.rule, finding.subject, finding.hold_s)
        yield Text.assemble(
            (f"  {finding.severity} {finding.rule}", style),
            f" · {visible(finding.subject)}{when}",
        )
        yield Padding(Text(visible(finding.summary)), (0, 0, 0, 4), expand=False)
        yield from response_lines(status, finding.rule, finding.subject)
    found = {(one.rule, one.subject) for one in status.findings}
    for alert in status.firing:
        # The query does not find it, or it is about the job's observations.
        if (alert.rule, alert.subject) not in found:
            since = utc_text(alert.started_at_ms)
            yield Text(f"  {alert.severity} {alert.rule} · {visible(alert.subject)} · fires, since {since}", "bold")
            yield from response_lines(status, alert.rule, alert.subject)
    if status.findings:
        # `check` takes no --journal.
        recorded = status.source is StatusSource.JOURNAL
        command = (
            f"kraftwatch explain {status.findings[0].rule}" if recorded else "kraftwatch check, with the same options"
        )
        yield Text(f"  what to do: {command}", "dim")


def _grid(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan")
    grid.add_column()
    for name, value in pairs:
        grid.add_row(f"  {name}", value)
    return grid


def _table(names: Sequence[str], *, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold cyan")
    table.add_column("")
    for name in names:
        # On a narrow terminal the directory id is cut first: its start is enough to distinguish replicas.
        short = name == "DirectoryId"
        table.add_column(
            name,
            justify="right" if name in right else "left",
            # On a narrow terminal no word of a sentence is broken.
            min_width=len("connections") if name == "Probe result" else None,
            overflow="ellipsis" if short else "fold",
            no_wrap=not short and name not in _MULTILINE,
        )
    return table


def _row(table: Table, *cells: object) -> None:
    words = (cell if isinstance(cell, Text) else NONE if cell is None else visible(str(cell)) for cell in cells)
    table.add_row(" ", *(word if isinstance(word, Text) else Text(word, _STYLES.get(word, "")) for word in words))


def status_lines(status: ClusterStatus) -> Iterable[tuple[str, str | Text]]:
    """Yields name and value of each line of `status`: leader, lag, votes, brokers and versions."""
    leader = "none" if status.leader_id is None else str(status.leader_id)
    yield "Leader", Text(leader, "bold" if status.leader_id is not None else "bold red")
    yield "Leader epoch", or_unknown(status.leader_epoch)
    yield "High watermark", or_unknown(status.high_watermark)
    lag = status.max_follower_lag
    lag_text = None if lag is None else f"{plural(lag, 'record')}, {duration_text(status.max_follower_lag_time_ms)}"
    yield "Max follower lag", or_unknown(lag_text)
    yield "Votes", _votes(status)
    yield "Next election" if status.leader_id is None else "If all restarted now", _election(status)
    if status.reaches:
        yield "Seen from hosts", _reached(status)
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
        text = f"{status.voters} voters, {status.votes_needed} votes needed; how many voters count now is unknown"
        return text + _because(status, "failures_left")
    more = "no further voter may fail" if left <= 0 else f"{left} more may fail"
    count = left + (status.votes_needed or 0)
    text = f"{count} of {status.voters} voters count now, {status.votes_needed} votes needed: {more}"
    return Text(text, "" if left >= tolerated else "yellow")


def _reached(status: ClusterStatus) -> str | Text:
    """Returns who does not reach whom, as the hosts of the nodes see it, and of how many pairs that is unknown."""
    found = [f"{one.by} does not reach {one.of} ({one.step})" for one in status.reaches if one.reached is Reached.NO]
    unknown = sum(one.reached is Reached.UNKNOWN for one in status.reaches)
    if not found and not unknown:
        others = len({one.by for one in status.reaches} - {one.of for one in status.reaches})
        rest = f"; {plural(others, 'other node')} {'reaches' if others == 1 else 'reach'} each" if others else ""
        return f"each controller reaches each other one{rest}"
    known = "" if not unknown else f"unknown for {unknown} of {len(status.reaches)} pairs"
    return Text("; ".join(filter(None, (*found, known))), "bold red" if found else "magenta")


def _because(status: ClusterStatus, question: str) -> str:
    """Returns on which controllers the answer depends, behind a colon; empty if it depends on none."""
    text = undecided_text(status.undecided.get(question, ()))
    return f": {visible(text)}" if text else ""


def _election(status: ClusterStatus) -> str | Text:
    if status.electable is None:
        return "unknown" + _because(status, "electable")
    if status.electable:
        return "a leader could be elected"
    refusing = [endpoint.id for endpoint in status.endpoints if endpoint.probe_result == "refuses connections"]
    if status.leader_id is not None or not refusing:
        return Text(NO_LEADER_ELECTED, "bold red")
    running, needed = len(status.endpoints) - len(refusing), needed_text(status.votes_needed or 0, "vote")
    return Text(
        f"no leader can be elected: {running} of {status.voters} voters accept connections, {needed}; connections are "
        f"refused by {node_ids(refusing)}",
        "bold red",
    )


def log_dir_lines(status: LogDirStatus) -> Iterable[tuple[str, str | Text]]:
    """Yields name and value of each line that `status --log-dir` prints."""
    key = status.meta_properties.key if status.meta_properties else None
    node = f"{key.id}-{key.directory_id or 'no directory id'}" if key else "unknown"
    yield "Disk of", visible(f"{node} ({status.folder})")
    yield "Quorum state", _last_vote(status.election)
    held = f"offsets {status.first_offset} to {status.end_offset - 1}, epoch {or_unknown(status.epoch)}"
    ends = held if status.end_offset > status.first_offset else "no records"
    yield "Log", f"{ends}, after {status.snapshot}" if status.snapshot else ends
    for number, problem in enumerate(status.start_problems):
        yield "Next start" if not number else "", Text(visible(problem.with_step), "bold red")
    below = status.committed_below
    committed = f"records below offset {below}, by the snapshot; of the others" if below else "of this log's records"
    yield "Committed", Text(f"{committed} unknown from one disk", "magenta")
    sets = status.voter_sets
    yield "Voter sets", f"{len(sets)} on this disk, the latest at offset {sets[-1].voters.offset}" if sets else "none"
    for file in sets[-_VOTER_SETS_SHOWN:]:
        where = f"{file.file}, up to offset" if file.in_snapshot else "offset"
        recorded = file.voters
        voters = and_join((_voter(voter) for voter in sorted(recorded.voters, key=lambda voter: voter.key.id)), 9)
        yield "", visible(f"{where} {recorded.offset}, epoch {or_unknown(recorded.leader_epoch)}: {voters}")


def _voter(voter: Voter) -> str:
    return f"{voter.key} at {voter.endpoint}" if voter.endpoint else str(voter.key)


def _last_vote(state: ElectionState | str) -> str:
    if isinstance(state, str):
        return "unknown"
    leader = "no leader known" if state.leader_id is None else f"leader {state.leader_id}"
    voted = "no vote" if state.voted is None else f"voted for {state.voted}"
    static = f", voters by its configuration: {and_join(state.static_voters)}" if state.static_voters else ""
    return f"epoch {state.leader_epoch}, {leader}, {voted}{static} (version {state.version})"


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
