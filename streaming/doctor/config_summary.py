"""The outlook of a configuration: what would be watched, who would be told what, and when nobody is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from connectors.sinks.alert_json import iso
from connectors.sinks.sink_config import Console, Jsonl, KafkaTopic, Wanted
from rules.finding import Plain, Severity
from rules.formatting import spelled
from rules.model.identifiers import Millis
from streaming.config import ClusterSection, Config
from streaming.config.maintenance_section import MaintenanceSection
from streaming.doctor.sink_check import Tried

_RECORDS = (Console, Jsonl, KafkaTopic)


def outlook(file: Path, config: Config, tries: Sequence[Tried], *, tested: bool, now_ms: Millis) -> dict[str, Plain]:
    """A good configuration as plain data, without a secret.

    Args:
        file: where it stands.
        config: what it says.
        tries: of each of its sinks, in their order.
        tested: whether they were sent a message.
        now_ms: the wall clock, for what is in force.
    """
    return {
        "file": str(file),
        "ok": True,
        "mistakes": [],
        "watched": [_cluster(section) for section in config.watched],
        "not_watched": [section.name for section in config.clusters if section not in config.watched],
        "sinks": [_sink(wanted, one, tested=tested) for wanted, one in zip(config.wanted(), tries, strict=True)],
        "maintenance": [_window(section, now_ms) for section in config.maintenance],
        "thresholds": {**config.overrides()},
        "checkpoint": str(config.checkpoint),
        "listen": config.listen,
    }


def text_of(shown: Mapping[str, Any]) -> RenderableType:
    """The same for people."""
    parts: list[RenderableType] = [Text(f"{shown['file']} is good"), Text()]
    parts.append(_table("watched", [_cluster_row(one) for one in shown["watched"]]))
    if shown["not_watched"]:
        parts.append(Text(f"not watched (by watch): {', '.join(shown['not_watched'])}"))
    parts += [Text(), _table("told", [_sink_row(one) for one in shown["sinks"]])]
    if shown["maintenance"]:
        parts += [Text(), _table("maintenance", [_window_row(one) for one in shown["maintenance"]])]
    numbers = [f"{name}={value:g}" for name, value in shown["thresholds"].items()]
    parts += [Text(), Text(f"thresholds   {', '.join(numbers) or 'the defaults'}")]
    parts.append(Text(f"checkpoint   {shown['checkpoint']}"))
    parts.append(Text(f"listens on   {shown['listen'] or 'nothing'}"))
    return Group(*parts)


def _cluster(section: ClusterSection) -> dict[str, Plain]:
    return {
        "name": section.name,
        "bootstrap": [*section.bootstrap],
        "security_protocol": section.security_protocol,
        "sasl_mechanism": section.sasl_mechanism,
        "principal": section.access.principal,
        "metadata_log": section.metadata_log,
        "vantage": section.vantage.value,
        "thresholds": {
            f"{rule}.{name}": value for rule, each in section.thresholds.items() for name, value in each.items()
        },
    }


def _cluster_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    login = " ".join(filter(None, (one["security_protocol"], one["sasl_mechanism"], one["principal"])))
    besides = [f"{name}={value:g}" for name, value in one["thresholds"].items()]
    besides += [] if one["metadata_log"] else ["polls alone"]
    return one["name"], ", ".join(one["bootstrap"]), login, ", ".join(besides)


def _sink(wanted: Wanted, one: Tried, *, tested: bool) -> dict[str, Plain]:
    return {
        "name": one.name,
        "each_transition": isinstance(wanted.place, _RECORDS),
        "min_severity": wanted.route.min_severity.value,
        "clusters": [*wanted.route.clusters],
        "repeat_s": wanted.repeat_s,
        "test": None if not tested else one.refused or "delivered",
    }


def _sink_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    again = "" if one["repeat_s"] is None else f", again after {spelled(round(one['repeat_s'] * 1000))}"
    what = "each transition" if one["each_transition"] else f"incidents{again}"
    severity = "" if one["min_severity"] == Severity.INFO else f"{one['min_severity']} or worse"
    clusters = "" if one["clusters"] == ["*"] else f"of {', '.join(one['clusters'])}"
    test = "" if one["test"] is None else f"test: {one['test']}"
    return one["name"], what, " ".join(filter(None, (severity, clusters))) or "everything", test


def _window(section: MaintenanceSection, now_ms: Millis) -> dict[str, Plain]:
    spans = section.window().spans(now_ms)
    return {
        "clusters": [*section.clusters],
        "rules": [*section.rules],
        "subjects": [*section.subjects],
        "days": [*section.days],
        "from": section.from_.isoformat("minutes"),
        "for_s": section.for_,
        "timezone": section.timezone,
        "comment": section.comment,
        "in_force": spans[0][0] <= now_ms,
        "next_starts_at": iso(spans[0][0]),
        "next_ends_at": iso(spans[0][1]),
    }


def _window_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    days = "each day" if len(one["days"]) == 7 else ", ".join(one["days"])
    when = f"{days} from {one['from']} for {spelled(round(one['for_s'] * 1000))} {one['timezone']}"
    patterns = [f"{key[:-1]} {', '.join(one[key])}" for key in ("clusters", "rules", "subjects") if one[key] != ["*"]]
    next_ = f"now, until {one['next_ends_at'][:16]}Z" if one["in_force"] else f"next {one['next_starts_at'][:16]}Z"
    return when, next_, ", ".join(patterns) or "everything", one["comment"]


def _table(title: str, rows: Sequence[Sequence[str]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
