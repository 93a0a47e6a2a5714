"""The alert rules for Prometheus: promtool accepts them and their tests, and they use existing metrics."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.evaluate import RULES
from rules.model.monitoring import Reason
from streaming.metrics.batch_stats import BATCH_DURATION
from streaming.metrics.exporter import CLUSTER_METRICS, OWN_METRICS
from streaming.metrics.metric_spec import MetricKind, MetricSpec

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "kraftwatch.rules.yml").read_text())["groups"]
    for rule in group["rules"]
}
TESTS = (FOLDER / "kraftwatch.rules.test.yml").read_text()
_METRIC = re.compile(r"\bkraftwatch_\w+")
_SELECTOR = re.compile(r"(kraftwatch_\w+)\{(.*?)\}")


def labels_by_metric() -> dict[str, set[str]]:
    """Every metric with its labels, including those that Prometheus adds."""
    specs: list[MetricSpec[Any]] = [*OWN_METRICS]
    labels = {one.full_name: set(one.labels) for one in specs}
    labels |= {one.full_name: {"cluster", *one.labels} for one in CLUSTER_METRICS}
    labels |= {f"{BATCH_DURATION}_bucket": {"le"}, f"{BATCH_DURATION}_count": set(), f"{BATCH_DURATION}_sum": set()}
    return {name: {*each, "instance", "job"} for name, each in labels.items()}


def unknown(expression: str) -> Iterator[str]:
    """The metrics and labels of an expression that do not exist."""
    known = labels_by_metric()
    for name in _METRIC.findall(expression):
        if name not in known:
            yield name
    for name, selector in _SELECTOR.findall(expression):
        yield from (label for label in re.findall(r"(\w+)\s*[=!]", selector) if label not in known.get(name, set()))


@pytest.mark.debian("prometheus")
@pytest.mark.parametrize(("verb", "file"), [("check", "kraftwatch.rules.yml"), ("test", "kraftwatch.rules.test.yml")])
def test_promtool_accepts_rules_and_their_tests(verb: str, file: str) -> None:
    ran = subprocess.run(["promtool", verb, "rules", file], cwd=FOLDER, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.debian("prometheus")
def test_promtool_finds_an_alert_that_fires_too_early(tmp_path: Path) -> None:
    """The tests of the rules fail when a hold is removed."""
    rules = (FOLDER / "kraftwatch.rules.yml").read_text()
    (tmp_path / "kraftwatch.rules.yml").write_text(rules.replace("for: 2m", "for: 0m"))
    (tmp_path / "kraftwatch.rules.test.yml").write_text(TESTS)
    command = ["promtool", "test", "rules", "kraftwatch.rules.test.yml"]

    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0


@pytest.mark.debian("prometheus")
def test_scrape_configuration_in_the_documents_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (FOLDER.parents[1] / "docs" / "metrics.md").read_text(), re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(block)
    (tmp_path / "kraftwatch.rules.yml").write_text((FOLDER / "kraftwatch.rules.yml").read_text())
    command = ["promtool", "check", "config", "prometheus.yml"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout
    assert yaml.safe_load(block)["scrape_configs"][0]["job_name"] == "kraftwatch", "the job name in the rules"


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_uses_existing_metrics(alert: str) -> None:
    rule = ALERTS[alert]

    assert list(unknown(rule["expr"])) == []
    assert list(unknown(" ".join(rule["annotations"].values()))) == []


def test_unknown_metric_or_label_is_found() -> None:
    assert list(unknown('kraftwatch_no_such > 0 and kraftwatch_leaderless{subject="x"} == 1')) == [
        "kraftwatch_no_such",
        "subject",
    ]


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_has_severity_summary_description_and_a_test(alert: str) -> None:
    rule = ALERTS[alert]

    assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
    assert rule["annotations"]["summary"]
    assert alert == "KraftwatchWatchdog" or rule["annotations"]["description"]
    assert alert in TESTS


def test_rules_and_reasons_that_alerts_name_exist() -> None:
    texts = " ".join(str(rule) for rule in ALERTS.values())
    reasons = re.findall(r'reason=~"([^"]+)"', texts)

    assert set(re.findall(r"explain ([a-z-]+)", texts)) <= set(RULES)
    assert {one for each in reasons for one in each.split("|")} <= {reason.value for reason in Reason}
    assert {one.kind for one in OWN_METRICS if one.name.endswith("_total")} == {MetricKind.COUNTER}
