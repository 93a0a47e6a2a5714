"""The summary of a valid configuration: monitored clusters, sinks, maintenance windows, thresholds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from connectors.sinks.alert_json import iso
from connectors.sinks.sink import DeliveryMode
from connectors.sinks.sink_config import SinkSpec
from rules.finding import Plain, Severity
from rules.formatting import ms_text
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
    """Returns a valid configuration as plain data, without secrets.

    Args:
        checks: the result for each sink, in the order of the configuration.
        now_ms: the wall clock, which decides which maintenance windows are active.
    """
    return {
        "file": str(file),
        "ok": True,
        "mistakes": [],
        "warnings": [*warnings],
        "watched": [_cluster(section) for section in config.watched],
        "not_watched": [section.name for section in config.clusters if section not in config.watched],
        "sinks": [_sink(spec, one, tested=tested) for spec, one in zip(config.sink_specs(), checks, strict=True)],
        "maintenance": [_window(section, now_ms) for section in config.maintenance],
        "thresholds": {**config.overrides()},
        "rules": _rules(config.rules),
        "checkpoint": config.checkpoint,
        "listen": config.listen,
    }


def summary_text(summary: Mapping[str, Any]) -> RenderableType:
    """Returns the summary, with the heartbeat's as `heartbeat`, as text."""
    parts: list[RenderableType] = [Text(f"{summary['file']} is valid"), Text()]
    parts.append(_table("monitored clusters", [_cluster_row(one) for one in summary["watched"]]))
    if summary["not_watched"]:
        parts.append(Text(f"not monitored (excluded by watch): {', '.join(summary['not_watched'])}"))
    parts += [Text(), _table("sinks", [_sink_row(one) for one in summary["sinks"]])]
    expected = [f"{one['name']}: {one['expect']}" for one in summary["sinks"] if one["expect"] is not None]
    if expected:
        parts += [Text(), Text("after the test", style="bold"), *map(Text, expected)]
    if summary["maintenance"]:
        parts += [Text(), _table("maintenance windows", [_window_row(one) for one in summary["maintenance"]])]
    numbers = [f"{name}={value:g}" for name, value in summary["thresholds"].items()]
    parts += [Text(), Text(f"thresholds   {', '.join(numbers) or 'defaults'}")]
    parts.append(
        Text(f"rules        {'; '.join(_rule_texts(summary['rules'])) or 'all enabled, with their severities'}")
    )
    parts.append(Text(f"checkpoint   {summary['checkpoint']}"))
    parts.append(Text(f"listen       {summary['listen'] or 'none'}"))
    if summary["heartbeat"] is not None:
        beat = summary["heartbeat"]
        test = "" if beat["test"] is None else f"; test: {beat['test']}"
        parts.append(Text(f"heartbeat    every {ms_text(round(beat['every_s'] * 1000))}{test}"))
    if summary["warnings"]:
        parts += [Text(), *(Text(f"warning: {sentence}", style="yellow") for sentence in summary["warnings"])]
    return Group(*parts)


def _rules(rules: Mapping[str, RuleSection]) -> dict[str, Plain]:
    return {rule: each.model_dump(mode="json", include={"severity", "enabled"}) for rule, each in rules.items()}


def _rule_texts(rules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns `RULE: warning`, `RULE: disabled` or `RULE: enabled, info` for each changed rule."""
    states = {True: "enabled", False: "disabled", None: None}
    return [
        f"{rule}: {', '.join(filter(None, (states[each['enabled']], each['severity'])))}"
        for rule, each in rules.items()
        if each["enabled"] is not None or each["severity"] is not None
    ]


def _cluster(section: ClusterSection) -> dict[str, Plain]:
    shown = {"name", "bootstrap", "security_protocol", "sasl_mechanism", "metadata_log", "vantage"}
    return {
        **section.model_dump(mode="json", include=shown),
        "principal": section.access.principal,
        "thresholds": {**flattened(section.thresholds)},
        "rules": _rules(section.rules),
    }


def _cluster_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    login = " ".join(filter(None, (one["security_protocol"], one["sasl_mechanism"], one["principal"])))
    settings = [f"{name}={value:g}" for name, value in one["thresholds"].items()] + _rule_texts(one["rules"])
    settings += [] if one["metadata_log"] else ["polls only (metadata_log: false)"]
    return one["name"], ", ".join(one["bootstrap"]), login, ", ".join(settings)


def _sink(spec: SinkSpec, one: SinkCheck, *, tested: bool) -> dict[str, Plain]:
    return {
        "name": one.name,
        "each_transition": spec.section.mode is DeliveryMode.TRANSITIONS,
        "min_severity": spec.section.route.min_severity.value,
        "clusters": [*spec.section.route.clusters],
        "rules": [*spec.section.route.rules],
        "excluded_rules": [*spec.section.route.excluded_rules],
        "repeat_s": spec.section.repeat_s,
        "test": None if not tested else one.test_error or one.not_sent or "delivered",
        "expect": one.expect,
    }


def _sink_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    repeat = "" if one["repeat_s"] is None else f", repeated after {ms_text(round(one['repeat_s'] * 1000))}"
    content = "every transition" if one["each_transition"] else f"incidents{repeat}"
    severity = "" if one["min_severity"] == Severity.INFO else f"{one['min_severity']} or worse"
    clusters = "" if one["clusters"] == ["*"] else f"of {', '.join(one['clusters'])}"
    rules = "" if one["rules"] == ["*"] else f"rules {', '.join(one['rules'])}"
    if one["excluded_rules"]:
        rules = f"{rules or 'all rules'} without {', '.join(one['excluded_rules'])}"
    test = "" if one["test"] is None else f"test: {one['test']}"
    return one["name"], content, " ".join(filter(None, (severity, clusters, rules))) or "all alerts", test


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


def _window_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    days = "every day" if len(one["days"]) == 7 else ", ".join(one["days"])
    when = f"{days} from {one['from']} for {ms_text(round(one['for_s'] * 1000))} {one['timezone']}"
    patterns = [f"{key[:-1]} {', '.join(one[key])}" for key in ("clusters", "rules", "subjects") if one[key] != ["*"]]
    next_ = f"now, until {one['next_ends_at'][:16]}Z" if one["in_force"] else f"next {one['next_starts_at'][:16]}Z"
    return when, next_, ", ".join(patterns) or "all alerts", one["comment"]


def _table(title: str, rows: Sequence[Sequence[str]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
