"""The summary of a valid configuration: monitored clusters, sinks, maintenance windows, thresholds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from connectors.sinks.sink import DeliveryMode
from connectors.sinks.sink_config import SinkSection
from rules.finding import Plain
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.config import ClusterSection, Config
from streaming.config.cluster_section import RuleSection, flattened
from streaming.config.maintenance import MaintenanceSection
from streaming.doctor.sink_check import SinkCheck


def config_summary(
    file: Path,
    config: Config,
    checks: Sequence[SinkCheck],
    *,
    warnings: Sequence[str],
    tested: bool,
    now_ms: Millis,
) -> dict[str, Plain]:
    """Returns a valid configuration, with the result for each sink and the windows as of `now_ms`, without secrets."""
    return {
        "file": str(file),
        "ok": True,
        "mistakes": [],
        "warnings": [*warnings],
        "watched": [_cluster(section) for section in config.watched],
        "not_watched": [section.name for section in config.clusters if section not in config.watched],
        "sinks": [
            _sink(entry.section, check, tested=tested) for entry, check in zip(config.sinks, checks, strict=True)
        ],
        "maintenance": [_window(section, now_ms) for section in config.maintenance],
        "thresholds": {**config.overrides()},
        "rules": _rules(config.rules),
        "checkpoint": config.checkpoint,
        "listen": config.listen,
    }


def summary_text(summary: Mapping[str, Any]) -> RenderableType:
    """Returns the summary, with `heartbeat` and `otlp`, as text: what is empty or for all is left out."""
    parts: list[RenderableType] = [Text(f"{summary['file']} is valid")]
    for title, key in (("monitored clusters", "watched"), ("sinks", "sinks"), ("maintenance windows", "maintenance")):
        table = Table(box=None, show_header=False, pad_edge=False, title=title, title_justify="left")
        for one in summary[key]:
            name = one.get("name") or one["comment"]
            table.add_row(
                Text(name), Text(_text({name: value for name, value in one.items() if name not in _OWN_LINE}))
            )
        parts += [Text(), table] if summary[key] else []
    parts.append(Text())
    parts += [Text(f"{one['name']}: {one['expect']}") for one in summary["sinks"] if one["expect"] is not None]
    for key in ("not_watched", "thresholds", "rules", "checkpoint", "listen", "heartbeat", "otlp"):
        parts.append(Text(f"{key.replace('_', ' '):<12} {_text(summary[key]) or '-'}"))
    parts += [Text(f"warning: {sentence}", style="yellow") for sentence in summary["warnings"]]
    return Group(*parts)


_OWN_LINE = ("name", "comment", "expect")


def _text(value: Any) -> str:
    """Returns a value as text; parts of a mapping that are empty, or hold for all, are left out."""
    if isinstance(value, Mapping):
        parts = {name: _text(each) for name, each in value.items() if each not in (None, ["*"])}
        return ", ".join(f"{name} {text}" for name, text in parts.items() if text)
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _rules(rules: Mapping[str, RuleSection]) -> dict[str, Plain]:
    return {rule: section.model_dump(mode="json", include={"severity", "enabled"}) for rule, section in rules.items()}


def _cluster(section: ClusterSection) -> dict[str, Plain]:
    shown = {"name", "bootstrap", "security_protocol", "sasl_mechanism", "metadata_log", "vantage"}
    return {
        **section.model_dump(mode="json", include=shown),
        "principal": section.access.principal,
        "thresholds": {**flattened(section.thresholds)},
        "rules": _rules(section.rules),
    }


def _sink(section: SinkSection, one: SinkCheck, *, tested: bool) -> dict[str, Plain]:
    return {
        "name": one.name,
        "each_transition": section.mode is DeliveryMode.TRANSITIONS,
        "min_severity": section.route.min_severity.value,
        "clusters": [*section.route.clusters],
        "rules": [*section.route.rules],
        "repeat_s": section.repeat_s,
        "test": None if not tested else one.test_error or one.not_sent or "delivered",
        "expect": one.expect,
    }


def _window(section: MaintenanceSection, now_ms: Millis) -> dict[str, Plain]:
    (starts_ms, ends_ms), *_ = section.spans(now_ms)
    return {
        **section.model_dump(mode="json", include={"clusters", "rules", "subjects", "days", "timezone", "comment"}),
        "from": section.from_.isoformat("minutes"),
        "for_s": section.for_,
        "in_force": starts_ms <= now_ms,
        "next_starts_at": iso(starts_ms),
        "next_ends_at": iso(ends_ms),
    }
