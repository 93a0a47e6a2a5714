"""`status`, `replication` and `partitions` for people: tables of what `overview` says, and nothing else.

Whatever came from outside is data: never markup, never a terminal's control code.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from connectors.sinks.evidence_format import duration, visible
from rules.formatting import listed
from streaming.status.health import Health
from streaming.status.log_dir_status import facts
from streaming.status.status_lines import NONE, Shown, figures, ids, span, worded

BADGES = {
    Health.CRITICAL: ("CRITICAL", "bold white on red"),
    Health.WARNING: ("WARNING", "bold black on yellow"),
    Health.UNKNOWN: ("CANNOT TELL", "bold white on magenta"),
    Health.HEALTHY: ("HEALTHY", "bold black on green"),
}
_STYLES = {
    "ok": "green",
    "fetching": "green",
    "Leader": "bold green",
    "stale": "bold red",
    "silent": "bold red",
    "down": "bold red",
    "unknown": "magenta",
    "critical": "bold red",
    "warning": "yellow",
    "info": "blue",
}
_LONG = frozenset({"Seen there", "Topic", "For", "Since (UTC)", "ISR before", "ELR before"})
"""Columns that may take several lines."""


def status(shown: Shown, health: Health) -> RenderableType:
    """The quorum at one look: what is wrong before anything else, then facts, and one row a voter."""
    return Group(
        _headline(shown, health),
        *_findings(shown),
        Text(),
        _facts(figures(shown)),
        *_disk(shown),
        Text(),
        _voters(shown),
        *_besides(shown),
        *unknown(((one["rule"], one["subject"], one["why"]) for one in shown["cannot_tell"]), most=4),
        Text(),
    )


def replication(shown: Shown, health: Health) -> RenderableType:
    """One row a replica, in the order and with the columns of `describe --replication`, and three more."""
    names = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "Status", "LagTime", "LastFetch", "Endpoint")
    table = _table(names, right=("NodeId", "LogEndOffset", "Lag", "LagTime", "LastFetch"))
    for row in shown["replicas"]:
        _row(
            table,
            row["node_id"],
            row["directory_id"],
            row["log_end_offset"],
            row["lag"],
            row["status"],
            span(row["lag_time_ms"]),
            _fetched(row),
            row["endpoint"],
        )
    if not shown["replicas"]:
        empty = Text("  DescribeQuorum was not answered: nothing is known of the replicas", style="magenta")
        return Group(_headline(shown, health), Text(), empty, Text())
    described = f"as leader {shown['leader_id']} of epoch {worded(shown['leader_epoch'])} tells it"
    if shown["leader_id"] is None:
        described = f"as the last leader told it at {shown['described_at']}: nobody leads now"
    note = Text(f"  {described}; times by the leader's clock", style="dim")
    return Group(_headline(shown, health), Text(), table, note, Text())


def _fetched(row: Mapping[str, Any]) -> Text:
    age = NONE if row["fetch_age_ms"] is None else f"{span(row['fetch_age_ms'])} ago"
    return Text(age, _STYLES["silent"] if row["liveness"] == "silent" else "")


def partitions(shown: Shown, health: Health) -> RenderableType:
    """One row a recovering partition, longest first."""
    if not shown["recovering"]:
        seen = "no partition is recovering" if _log_was_read(shown) else "the metadata log was not read to its end"
        return Group(_headline(shown, health), Text(), Text(f"  {seen}"), Text())
    names = (
        "Topic",
        "Partition",
        "For",
        "Since (UTC)",
        "Leader",
        "ISR",
        "Replicas",
        "Alive",
        "ISR before",
        "ELR before",
    )
    table = _table(names, right=("Partition", "For", "Leader"))
    for one in shown["recovering"]:
        least = "at least " if one["at_least"] else ""
        _row(
            table,
            one["topic"] or one["topic_id"],
            one["partition"],
            f"{least}{span(one['for_ms'])}",
            one["since"][:19].replace("T", " "),
            one["leader"],
            ids(one["isr"]),
            ids(one["replicas"]),
            ids(one["replicas_alive"]),
            ids(one["previous_isr"]),
            ids(one["previous_elr"]),
        )
    return Group(_headline(shown, health), Text(), table, Text())


def unknown(gaps: Iterable[tuple[str, str | None, str]], most: int = 20) -> Iterable[Text]:
    """What cannot be told, one line a reason: (rule, subject, why), of each rule and subject the first."""
    by_why: dict[str, list[str]] = {}
    told: set[str] = set()
    for rule, subject, why in gaps:
        about = f"{rule} ({subject})" if subject else rule
        if about not in told:
            told.add(about)
            by_why.setdefault(why, []).append(about)
    for why, about_all in by_why.items():
        yield Text(visible(f"  cannot tell {listed(about_all, most)}: {why}"), "magenta")


def badge(health: Health) -> tuple[str, str]:
    """A word in capitals and its style."""
    word, style = BADGES[health]
    return f" {word} ", style


def _disk(shown: Shown) -> Iterable[RenderableType]:
    if shown["log_dir"] is not None:
        yield Text()
        yield _facts(facts(shown["log_dir"]))


def _headline(shown: Shown, health: Health) -> Text:
    text = Text.assemble(badge(health), (f" {visible(shown['cluster'])}", "bold"))
    text.append(f"  {visible(shown['cluster_id'] or 'cluster id unknown')}  {shown['observed_at'] or ''}\n", "dim")
    if shown["source"] == "journal":
        text.append(f"  recorded state, {duration(shown['age_ms'])} old", "bold magenta")
        text.append(": no leader answered a look of now\n" if shown["missing"] else ": nobody was asked\n", "magenta")
    elif shown["source"] == "log-dir":
        text.append(f"  read from one disk; its newest record is {duration(shown['age_ms'])} old\n", "bold magenta")
    elif shown["source"] == "none":
        text.append(
            "  no leader answered, and no recorded state was given: --journal DIR shows what a job saw\n",
            "bold magenta",
        )
    for each in shown["missing"]:
        text.append(f"  not seen: {visible(each)}\n", "magenta")
    text.rstrip()
    return text


def _voters(shown: Shown) -> RenderableType:
    if not shown["endpoints"]:
        named = ", ".join(str(voter["id"]) for voter in shown["current_voters"])
        return Text(f"  voters: {named or 'not known'} (no VotersRecord was seen)")
    # Without a leader it is what was so when one last told.
    part = "Took part" if shown["leader_id"] is None else "Takes part"
    names = ("Voter", "DirectoryId", "Recorded endpoint", "Verdict", "Seen there", part)
    elsewhere = any(one["registered"] not in (None, one["recorded"]) for one in shown["endpoints"])
    table = _table((*names, "Registered at") if elsewhere else names, right=("Voter",))
    for one in shown["endpoints"]:
        cells = [one["id"], one["directory_id"], one["recorded"], one["verdict"], one["seen"], one["liveness"]]
        differs = one["registered"] not in (None, one["recorded"])
        registered = Text(worded(one["registered"]), _STYLES["stale"] if differs else "")
        _row(table, *cells, *((registered,) if elsewhere else ()))
    return table


def _besides(shown: Shown) -> Iterable[Text]:
    pending = shown["pending_voters"] or {"added": [], "removed": []}
    lists = (
        ("observers", shown["current_observers"], ""),
        ("could be voters", shown["could_be_voters"], "yellow"),
        ("voters to be added, not committed yet", pending["added"], "yellow"),
        ("voters to be removed, not committed yet", pending["removed"], "yellow"),
        ("registered controllers that are no voters", shown["registrations_without_voter"], "yellow"),
    )
    for name, rows, style in lists:
        if rows:
            yield Text(f"  {name}: {', '.join(_replica(row) for row in rows)}", style)
    if shown["source"] != "live" and shown["initial_controllers"]:
        yield Text(f"  the recorded voters as --initial-controllers: {visible(shown['initial_controllers'])}")


def _replica(row: Mapping[str, Any]) -> str:
    silent = " (silent)" if row.get("liveness") == "silent" else ""
    if row.get("directory_id"):
        return visible(f"{row['id']}-{row['directory_id']}{silent}")
    return f"{row['id']}{silent}"


def _findings(shown: Shown) -> Iterable[RenderableType]:
    for one in shown["findings"]:
        style = _STYLES[one["severity"]]
        yield Text.assemble((f"  {one['severity']} {one['rule']}", style), f" · {visible(one['subject'])}")
        yield Padding(Text(visible(one["summary"])), (0, 0, 0, 4), expand=False)
    if shown["findings"]:
        # What a job recorded is not judged by check: it takes no --journal.
        recorded = shown["source"] == "journal"
        verb = "kraftwatch explain RULE" if recorded else "kraftwatch check, with the same options"
        yield Text(f"  what to do: {verb}", "dim")


def _facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
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
        # A terminal that is too narrow costs the end of a directory id first: what tells replicas apart is its start.
        short = name == "DirectoryId"
        table.add_column(
            name,
            justify="right" if name in right else "left",
            # Of a sentence, a terminal that is too narrow breaks no word.
            min_width=len("connections") if name == "Seen there" else None,
            overflow="ellipsis" if short else "fold",
            no_wrap=not short and name not in _LONG,
        )
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(" ", *(cell if isinstance(cell, Text) else _cell(cell) for cell in cells))


def _cell(value: object) -> Text:
    word = NONE if value is None else visible(str(value))
    return Text(word, _STYLES.get(word, ""))


def _log_was_read(shown: Shown) -> bool:
    return shown["source"] != "none" and not any("metadata log" in each for each in shown["missing"])
