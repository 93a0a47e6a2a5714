"""Lanes: what happened to one cluster, as marks and spans, before it is put on an axis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from connectors.sinks.alert_json import from_iso
from connectors.sinks.evidence_format import duration, visible
from rules.alert import Alert, AlertState
from rules.formatting import counted, listed
from rules.model.identifiers import Millis
from streaming.web.cluster_view import Dossier

TOPICS_SHOWN = 6
"""Topics in recovery that get a span of their own."""


class Shape(StrEnum):
    """How a mark is drawn: by its shape alone one kind is told from another."""

    ELECTION = "election"
    VOTERS = "voters"
    FORCED = "forced"
    START = "start"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened at a moment."""

    at_ms: Millis
    shape: Shape
    says: str
    label: str = ""
    """A word beside it, where there is room."""
    x: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that lasted."""

    from_ms: Millis
    to_ms: Millis
    kind: str
    """critical, warning, info, waiting, recovering, silence."""
    says: str
    open: bool = False
    """It goes on."""
    x: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line of the picture."""

    name: str
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()


def of_the_log(dossier: Dossier, ahead_ms: int) -> tuple[Lane, ...]:
    """What the log tells, by its own time: elections, voter changes, controllers' starts, recoveries.

    Args:
        dossier: of the cluster.
        ahead_ms: how far that time is ahead of the monitor's.
    """
    shown = dossier.portrait
    return (
        Lane(name="Elections", marks=tuple(_elections(shown))),
        Lane(name="Voter set", marks=tuple(_voters(shown))),
        Lane(name="Controller starts", marks=tuple(_starts(shown))),
        Lane(name="Recovery", marks=tuple(_unclean(shown)), spans=tuple(_recoveries(dossier, ahead_ms))),
    )


def _elections(shown: Mapping[str, Any]) -> Iterable[Mark]:
    for one in shown.get("elections") or ():
        at_ms = one["at_ms"] if "at_ms" in one else from_iso(one["at"])
        yield Mark(
            at_ms=Millis(at_ms),
            shape=Shape.ELECTION,
            says=f"controller {one['leader_id']} was elected, epoch {one['leader_epoch']}",
            label=str(one["leader_id"]),
        )


def _voters(shown: Mapping[str, Any]) -> Iterable[Mark]:
    forced = {one["offset"] for one in shown.get("reconfigurations") or ()}
    for one in shown.get("voter_changes") or ():
        said = changed(one)
        by_force = one["offset"] in forced
        yield Mark(
            at_ms=from_iso(one["at"]),
            shape=Shape.FORCED if by_force else Shape.VOTERS,
            says=f"voter set {'changed by force' if by_force else 'changed'}: {said}, at offset {one['offset']}",
            label=" ".join(
                (*(f"+{key['id']}" for key in one["added"]), *(f"\u2212{key['id']}" for key in one["removed"]))
            )[:12],
        )


def changed(change: Mapping[str, Any]) -> str:
    """A change of the voter set in words."""
    parts = [f"{key['id']}-{key['directory_id']} {word}" for word in ("added", "removed") for key in change[word]]
    parts += [f"endpoint of {node} rewritten" for node in change["moved"]]
    return listed(parts, 4)


def _starts(shown: Mapping[str, Any]) -> Iterable[Mark]:
    for one in shown.get("starts") or ():
        yield Mark(
            at_ms=Millis(one["at_ms"]),
            shape=Shape.START,
            says=f"controller {one['id']} started",
            label=str(one["id"]),
        )


def _unclean(shown: Mapping[str, Any]) -> Iterable[Mark]:
    for one in shown.get("unclean") or ():
        yield Mark(
            at_ms=Millis(one["first_at_ms"]),
            shape=Shape.UNCLEAN,
            says=f"{counted(one['elections'], 'unclean election')} in topic {topic_of(one)}",
        )


def topic_of(one: Mapping[str, Any]) -> str:
    """A topic's name, or its id where the log does not tell the name."""
    return visible(one["topic"] or f"with id {one['topic_id']}")


def _recoveries(dossier: Dossier, ahead_ms: int) -> Iterable[Span]:
    """By the log's clock, as when they began is told."""
    shown = dossier.portrait
    now_ms = Millis((shown.get("now_ms") or dossier.now_ms) + ahead_ms)
    for one in dossier.recovered:
        name = visible(one.topic or f"with id {one.topic_id}")
        yield Span(
            from_ms=one.since_ms,
            to_ms=Millis(one.ended_ms + ahead_ms),
            kind="recovering",
            says=f"topic {name} was RECOVERING for {duration(max(0, one.ended_ms + ahead_ms - one.since_ms))}",
        )
    topics = shown.get("recoveries") or ()
    for one in topics[:TOPICS_SHOWN]:
        least = "at least " if one["at_least"] else ""
        yield Span(
            from_ms=Millis(one["since_ms"]),
            to_ms=max(now_ms, Millis(one["since_ms"])),
            kind="recovering",
            open=True,
            says=f"{counted(one['partitions'], 'partition')} of topic {topic_of(one)} RECOVERING "
            f"for {least}{duration(max(0, now_ms - one['since_ms']))}",
        )
    if len(topics) > TOPICS_SHOWN:
        since = min(one["since_ms"] for one in topics[TOPICS_SHOWN:])
        yield Span(
            from_ms=Millis(since),
            to_ms=max(now_ms, Millis(since)),
            kind="recovering",
            open=True,
            says=f"{counted(len(topics) - TOPICS_SHOWN, 'more topic')} RECOVERING",
        )


def of_alerts(dossier: Dossier, from_ms: Millis, to_ms: Millis, *, most: int) -> tuple[list[Lane], int]:
    """A lane for each alert that touches the span, however often it came: those that fire first, then the newest.

    Returns:
        So many lanes at most, and how many alerts have none for that.
    """
    by_alert: dict[str, dict[int, list[Alert]]] = {}
    for alert in dossier.history:
        by_alert.setdefault(alert.fingerprint, {}).setdefault(alert.started_at_ms, []).append(alert)
    touching = [lives for lives in by_alert.values() if any(_touches(life, from_ms, to_ms) for life in lives.values())]
    touching.sort(key=_rank)
    lanes = []
    for lives in touching[:most]:
        spans = tuple(span for life in lives.values() for span in _life(life, dossier.now_ms))
        newest = [*lives.values()][-1][-1]
        lanes.append(Lane(name=f"{newest.rule} · {visible(newest.subject)}", spans=spans))
    return lanes, max(0, len(touching) - most)


def _touches(life: Sequence[Alert], from_ms: Millis, to_ms: Millis) -> bool:
    over = life[-1].state is AlertState.RESOLVED and life[-1].observed_at_ms < from_ms
    return life[0].started_at_ms <= to_ms and not over


def _rank(lives: Mapping[int, Sequence[Alert]]) -> tuple[bool, int]:
    newest = [*lives.values()][-1][-1]
    return newest.state is not AlertState.FIRING, -newest.observed_at_ms


def _life(life: Sequence[Alert], now_ms: Millis) -> Iterable[Span]:
    """From first sight to told, then one span for each severity, to its end or to now."""
    first = life[0]
    if first.observed_at_ms > first.started_at_ms:
        yield Span(
            from_ms=first.started_at_ms,
            to_ms=first.observed_at_ms,
            kind="waiting",
            says=f"{first.rule}, {visible(first.subject)}: first seen, not told before its hold was over",
        )
    for at, alert in enumerate(life):
        if alert.state is AlertState.RESOLVED:
            continue
        end = life[at + 1].observed_at_ms if at + 1 < len(life) else max(now_ms, alert.observed_at_ms)
        yield Span(
            from_ms=alert.observed_at_ms,
            to_ms=end,
            kind=alert.severity.value,
            open=at + 1 == len(life),
            says=f"{alert.severity.value} {alert.rule}, {visible(alert.subject)}: {visible(alert.summary)}",
        )


def of_silences(dossier: Dossier) -> Lane:
    """The silences that began and may speak of the cluster."""
    spans = [
        Span(
            from_ms=one.starts_at_ms,
            to_ms=min(one.ends_at_ms, dossier.now_ms),
            kind="silence",
            open=one.ends_at_ms > dossier.now_ms,
            says=f"silenced by {visible(one.author)}: {visible(one.comment)}",
        )
        for one in dossier.silences
        if one.starts_at_ms <= dossier.now_ms
    ]
    return Lane(name="Silences", spans=tuple(spans))
