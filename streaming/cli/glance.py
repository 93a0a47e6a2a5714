"""From options to glimpses: who is looked at, live or in a journal, and how what was seen is shown."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from connectors.errors import UsageError
from connectors.kafka.wire import hush
from rules.finding import Plain
from rules.quorum import Vantage
from streaming.cli import given
from streaming.config import ClusterSection, in_force
from streaming.oncall.glimpse import Glimpse
from streaming.oncall.look import look
from streaming.oncall.recorded import recorded, remembered
from streaming.oncall.verdict import Health, health
from streaming.oncall.view import Target
from streaming.replay.machine import Machine

PLAIN_WIDTH = 220
"""Columns where nobody's terminal says how many there are: nothing is folded for a file or a pipe."""

INTERRUPTED = 130
"""The exit code of a look that ^C ended."""

Build: TypeAlias = Callable[[Glimpse], dict[str, Plain]]
Draw: TypeAlias = Callable[[Mapping[str, Any], Health], RenderableType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks to see."""

    config: Path | None
    cluster: Sequence[str] | None
    setting: Sequence[str] | None
    resolve: Sequence[str] | None
    hosts_file: Path | None
    timeout: float
    journal: Path | None = None
    watch: bool = False

    @property
    def live(self) -> bool:
        """Some cluster is to be asked."""
        return bool(self.cluster) or self.config is not None


def glimpses(wanted: Wanted, each: Callable[[Sequence[Glimpse]], bool] = lambda _: False) -> Sequence[Glimpse]:
    """Look, as asked.

    Args:
        wanted: the options.
        each: is given every glimpse; True asks for another one a second later, where clusters are asked.

    Raises:
        UsageError: something given cannot be.
    """
    hush()
    if not wanted.live and wanted.journal is not None:
        if wanted.watch:
            raise UsageError("--watch needs a cluster to look at: give --cluster NAME=HOST:PORT,… or --config FILE")
        seen = _recorded_alone(wanted, wanted.journal)
        each(seen)
        return seen
    settled = given.settled(
        config=wanted.config,
        cluster=wanted.cluster,
        setting=wanted.setting,
        resolve=wanted.resolve,
        hosts_file=wanted.hosts_file,
    )
    thresholds = settled.thresholds_in_force()
    targets = _targets(settled.clusters, wanted.journal)
    return look(targets, thresholds, timeout_s=wanted.timeout, say=_say, each=each)


def once(wanted: Wanted) -> Sequence[Glimpse]:
    """One glimpse of each cluster.

    Raises:
        UsageError: something given cannot be.
    """
    try:
        return glimpses(wanted)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def the_one(wanted: Wanted) -> Glimpse:
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


def show(wanted: Wanted, build: Build, draw: Draw, *, as_json: bool) -> None:
    """Print what `build` makes of each glimpse: as JSON lines, or drawn for people; again and again with `--watch`.

    Raises:
        UsageError: something given cannot be.
    """
    console = _console()
    on_screen = wanted.watch and console.is_terminal and not as_json
    live = Live(console=console, auto_refresh=False, screen=True) if on_screen else None

    def each(seen: Sequence[Glimpse]) -> bool:
        if as_json:
            for one in seen:
                print_json(build(one))
            return wanted.watch
        drawn = Group(*(draw(build(one), health(one)) for one in seen))
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


def print_json(value: Mapping[str, Plain]) -> None:
    """One line on stdout, flushed."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _say(text: str) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"kraftwatch: {text}", markup=False, style="dim")


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def _recorded_alone(wanted: Wanted, journal: Path) -> Sequence[Glimpse]:
    thresholds = in_force(given.overrides({}, wanted.setting or ()))
    found = recorded(journal, lambda name: Machine(name, None, (), Vantage.INSIDE), say=_say)
    if not found:
        raise UsageError(f"--journal {journal}: nothing of any cluster was recorded yet")
    return [remembered(one, thresholds) for one in found.values()]


def _targets(sections: Sequence[ClusterSection], journal: Path | None) -> list[Target]:
    by_name = {section.name: section for section in sections}

    def new(name: str) -> Machine | None:
        section = by_name.get(name)
        names.add(name)
        if section is None:
            return None
        return Machine(name, section.cluster_id, tuple(section.bootstrap), section.vantage)

    names: set[str] = set()
    found = {} if journal is None else recorded(journal, new, say=_say)
    for name in by_name:
        if journal is not None and name not in found:
            held = ", ".join(sorted(names)) or "nothing"
            raise UsageError(f"--journal {journal} holds nothing of cluster {name}; it holds: {held}")
    return [
        Target(cluster=section.cluster(), vantage=section.vantage, recorded=found.get(section.name))
        for section in sections
    ]
