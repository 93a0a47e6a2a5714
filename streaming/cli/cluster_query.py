"""From options to glimpses: who is looked at, live or in a journal, and how what was seen is shown."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from connectors.errors import UsageError
from connectors.kafka.kafka_python import limit_kafka_logging
from rules.finding import Plain
from rules.model.monitoring import Vantage
from streaming.cli import options
from streaming.cli.options import Asked, Offline, Shown
from streaming.cli.output import note, printed
from streaming.config import Config, flattened, in_force
from streaming.replay.machine import Machine
from streaming.status.build_status import RECOVERING_LIMIT, cluster_status
from streaming.status.cluster_state import ClusterState
from streaming.status.cluster_status import ClusterStatus
from streaming.status.from_journal import ReplayedJournal, has_journal, recorded_state, replay_journal
from streaming.status.from_log_dir import replay_log_dir
from streaming.status.health import Health, health
from streaming.status.live import query_clusters
from streaming.status.live_cluster import QueryTarget

INTERRUPTED = 130
"""The exit code of a look that ^C ended."""

ToJson: TypeAlias = Callable[[ClusterStatus], dict[str, Plain]]
ToTable: TypeAlias = Callable[[ClusterStatus, Health], RenderableType]


def glimpses(wanted: Asked, each: Callable[[Sequence[ClusterState]], bool] = lambda _: False) -> Sequence[ClusterState]:
    """Look, as asked.

    Args:
        wanted: the options.
        each: is given every glimpse; True asks for another one a second later, where clusters are asked.

    Raises:
        UsageError: something given cannot be.
    """
    limit_kafka_logging()
    journal = wanted.journal if isinstance(wanted, Shown) else None
    seen = _offline(wanted, journal) if isinstance(wanted, Offline) else None
    if seen is not None:
        each(seen)
        return seen
    settled = wanted.settled()
    recall = isinstance(wanted, Shown) and wanted.config is not None and journal is None
    targets = _targets(settled, journal, recall_from=settled.checkpoint if recall else None)
    return query_clusters(targets, timeout_s=wanted.timeout, say=note, each=each)


def once(wanted: Asked) -> Sequence[ClusterState]:
    """One glimpse of each cluster.

    Raises:
        UsageError: something given cannot be.
    """
    try:
        return glimpses(wanted)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def the_one(wanted: Asked) -> ClusterState:
    """One glimpse of the only cluster that is given.

    Raises:
        UsageError: several are given, or something given cannot be.
    """
    if wanted.config is None and len(wanted.cluster or ()) > 1:
        raise UsageError(f"one cluster is judged at a time, {len(wanted.cluster or ())} are given: give one --cluster")
    seen = once(wanted)
    if len(seen) != 1:
        raise UsageError(f"one cluster is judged at a time, {len(seen)} are given: give one with --cluster")
    return seen[0]


def show(wanted: Shown, to_json: ToJson, to_table: ToTable, *, recovering_limit: int | None = RECOVERING_LIMIT) -> None:
    """Prints the status of each cluster, as JSON lines or as tables; every second with `--watch`.

    Args:
        wanted: the options.
        to_json: makes the fields of `--json`.
        to_table: makes the table.
        recovering_limit: how many recovering partitions are named; None: all.

    Raises:
        UsageError: something given cannot be.
    """
    console = printed()
    on_screen = wanted.watch and console.is_terminal and not wanted.as_json
    live = Live(console=console, auto_refresh=False, screen=True) if on_screen else None

    def each(seen: Sequence[ClusterState]) -> bool:
        if wanted.as_json:
            for one in seen:
                options.print_json(to_json(cluster_status(one, recovering_limit=recovering_limit)))
            return wanted.watch
        drawn = Group(*(to_table(cluster_status(one, recovering_limit=recovering_limit), health(one)) for one in seen))
        if live is None:
            console.print(drawn)
        else:
            # Not before there is something to show: what is still waited for is said on the ordinary screen.
            live.start()
            live.update(drawn, refresh=True)
        return wanted.watch

    try:
        glimpses(wanted, each)
    except KeyboardInterrupt:
        raise typer.Exit(0 if wanted.watch else INTERRUPTED) from None
    finally:
        if live is not None:
            live.stop()


def _offline(wanted: Offline, journal: Path | None) -> Sequence[ClusterState] | None:
    """What is on a disk of ours or theirs; None where clusters are to be asked."""
    upto = wanted.moment
    if upto is not None and (wanted.live or (journal is None and wanted.log_dir is None)):
        raise UsageError(
            "--at shows the past: give --journal DIR or --log-dir DIR with it, and no --cluster or --config"
        )
    if wanted.log_dir is not None and (wanted.live or journal is not None):
        raise UsageError("--log-dir shows what one disk holds: give no --cluster, --config or --journal with it")
    if wanted.log_dir is None and (wanted.live or journal is None):
        return None
    if isinstance(wanted, Shown) and wanted.watch:
        raise UsageError("--watch needs a cluster to look at: give --cluster NAME=HOST:PORT,… or --config FILE")
    thresholds = in_force(flattened(options.overrides({}, wanted.setting or ())))
    if wanted.log_dir is not None:
        read = replay_log_dir(wanted.log_dir, upto)
        contents = read.contents
        return [recorded_state(read.machine, read.newest_ms, thresholds, missing=contents.missing, log_dir=contents)]
    assert journal is not None
    found = replay_journal(journal, lambda name: Machine(name, None, (), Vantage.INSIDE), upto=upto, say=note)
    if not found:
        raise UsageError(f"--journal {journal}: nothing of any cluster was recorded yet")
    return [recorded_state(one.machine, one.newest_ms, thresholds, missing=one.missing) for one in found.values()]


def _targets(config: Config, journal: Path | None, recall_from: Path | None) -> list[QueryTarget]:
    """The clusters to look at, each with what was recorded of it.

    Args:
        config: says which.
        journal: is read now, and has to hold every one of them.
        recall_from: is read only if one of them does not answer, and may not be there.
    """
    by_name = {section.name: section for section in config.watched}
    names: set[str] = set()

    def new(name: str) -> Machine | None:
        section = by_name.get(name)
        names.add(name)
        if section is None:
            return None
        machine = Machine(name, section.cluster_id, tuple(section.bootstrap), section.vantage)
        machine.access = section.access
        return machine

    @cache
    def all_recalled() -> Mapping[str, ReplayedJournal]:
        if recall_from is None or not has_journal(recall_from):
            return {}
        note(f"no leader answers: reading what was recorded in {recall_from}")
        return replay_journal(recall_from, new, say=note)

    def recall(name: str) -> ReplayedJournal | None:
        return all_recalled().get(name)

    found = {} if journal is None else replay_journal(journal, new, say=note)
    for name in by_name:
        if journal is not None and name not in found:
            held = ", ".join(sorted(names)) or "nothing"
            raise UsageError(f"--journal {journal} holds nothing of cluster {name}; it holds: {held}")
    return [
        QueryTarget(
            cluster=section.cluster(),
            vantage=section.vantage,
            access=section.access,
            recorded=found.get(section.name),
            read_recorded=partial(recall, section.name),
            thresholds=config.thresholds_in_force(section),
        )
        for section in config.watched
    ]
