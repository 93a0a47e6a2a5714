"""The alert rules for Prometheus: promtool accepts them and their tests, and they use existing metrics.

The rules about a quorum have the severities of the product's rules; Alertmanager's sample inhibits what the product
inhibits.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.evaluate import RULES, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import Finding, Severity
from rules.model.quorum import Quorum
from tests.situation.commands import situation
from tests.unit.deploy.promtool import promtool, unknown
from tests.unit.streaming.metrics.exposition import MetricsFixture, reader

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"
DOCS = FOLDER.parents[1] / "docs"
HEALTH, QUORUM = "kraftwatch-health.rules.yml", "kraftwatch-quorum.rules.yml"
DOCS_URL = "https://docs.example/kraftwatch/"


def alerts_of(file: str) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / file).read_text())["groups"]
    assert f"{group['name']}.rules.yml" == file
    return {rule["alert"]: rule for rule in group["rules"]}


QUORUM_ALERTS = alerts_of(QUORUM)
ALERTS = {**alerts_of(HEALTH), **QUORUM_ALERTS}
TESTS = (FOLDER / "kraftwatch.rules.test.yml").read_text()


@pytest.mark.debian("prometheus")
@pytest.mark.parametrize(
    ("verb", "file"), [("check", HEALTH), ("check", QUORUM), ("test", "kraftwatch.rules.test.yml")]
)
def test_promtool_accepts_rules_and_their_tests(verb: str, file: str) -> None:
    promtool(FOLDER, verb, "rules", file)


@pytest.mark.debian("prometheus")
def test_scrape_configuration_in_the_documents_is_valid(tmp_path: Path) -> None:
    block, *_ = re.findall(r"```yaml\n(.*?)```", (DOCS / "metrics.md").read_text(), re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(block)
    for file in (HEALTH, QUORUM):
        (tmp_path / file).write_text((FOLDER / file).read_text())
    checked = promtool(tmp_path, "check", "config", "prometheus.yml")

    assert sum(map(int, re.findall(r"(\d+) rules found", checked))) == len(ALERTS)
    assert yaml.safe_load(block)["scrape_configs"][0]["job_name"] == "kraftwatch", "the job name in the rules"


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_has_existing_metrics_annotations_a_test_and_a_runbook(alert: str) -> None:
    rule = ALERTS[alert]

    assert list(unknown(" ".join([rule["expr"], *rule["annotations"].values()]))) == []
    assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert all(rule["annotations"].values())
    assert alert in TESTS
    url = rule["annotations"]["runbook_url"]
    if alert in QUORUM_ALERTS:
        about = rule["labels"].get("rule", "{{ $labels.rule }}")
        assert about in {*RULES, "{{ $labels.rule }}"}
        assert url == f"{DOCS_URL}rules/{about}/"
    else:
        assert url == f"{DOCS_URL}runbook/#{alert.lower()}"
        assert f"\n## {alert}\n" in (DOCS / "runbook.md").read_text()


CONDITIONS: dict[str, tuple[str, Quorum]] = {
    "KraftwatchNoLeader": ("no-leader", situation("leaderless 1")),
    "KraftwatchNoFailureTolerance": ("failure-tolerance", situation("stop-fetching 2")),
    "KraftwatchMajorityLost": ("failure-tolerance", situation("stop-fetching 1,2")),
}
"""For each alert that reads a quorum's metrics: the product's rule, and a quorum with its condition."""


def test_every_alert_about_a_quorum_has_a_condition_or_repeats_the_severity_of_the_product() -> None:
    """`kraftwatch_rule_firing` has the severity as a label, so a repeated alert cannot have another one."""
    repeated = {name: alert for name, alert in QUORUM_ALERTS.items() if name not in CONDITIONS}

    for alert in repeated.values():
        assert f'kraftwatch_rule_firing{{severity="{alert["labels"]["severity"]}"}}' in alert["expr"]
    assert {alert["labels"]["severity"] for alert in repeated.values()} == set(Severity)


@pytest.mark.debian("prometheus")
@pytest.mark.parametrize("alert", CONDITIONS)
def test_alert_about_a_quorum_has_the_severity_of_the_products_rule(alert: str, tmp_path: Path) -> None:
    """The metrics of the same quorum that the product's rule evaluates make the alert fire."""
    rule, quorum = CONDITIONS[alert]
    (finding,) = RULES[rule].evaluate(Facts(quorum), thresholds_for({})[rule])
    assert isinstance(finding, Finding)
    read = reader(MetricsFixture(tmp_path).batch(quorum).samples())
    series = [
        {"series": f'kraftwatch_{name}{{cluster="prod", instance="k1"}}', "values": f"{value:g}x60"}
        for name in ("leaderless", "failure_tolerance", "number_of_voters")
        if (value := read(name)) is not None
    ]
    labels = f'alertname="{alert}", alertstate="firing", cluster="prod", rule="{rule}", severity="{finding.severity}"'
    expected = {"expr": f'ALERTS{{alertname="{alert}"}}', "eval_time": "30m"}
    samples_expected = {"exp_samples": [{"labels": f"ALERTS{{{labels}}}", "value": 1}]}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [expected | samples_expected]}
    (tmp_path / QUORUM).write_text((FOLDER / QUORUM).read_text())
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": [QUORUM], "tests": [test]}, width=1000))

    promtool(tmp_path, "test", "rules", "test.yml")


ALERTMANAGER = yaml.safe_load((FOLDER / "alertmanager.yml").read_text())


@pytest.mark.debian("prometheus-alertmanager")
def test_amtool_accepts_the_sample_configuration_and_its_routes() -> None:
    checked = amtool("check-config", "alertmanager.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for labels, receivers in (
        (("alertname=KraftwatchWatchdog", "severity=none"), "dead-mans-switch"),
        (("alertname=KraftwatchCritical", "rule=no-leader", "cluster=prod", "severity=critical"), "pager"),
        (("alertname=KraftwatchDown", "severity=critical"), "pager"),
        (("alertname=KraftwatchWarning", "rule=voter-lagging", "cluster=prod", "severity=warning"), "chat"),
        (("alertname=KraftwatchInfo", "rule=version-drift", "cluster=prod", "severity=info"), "none"),
    ):
        routed = amtool("config", "routes", "test", "--config.file=alertmanager.yml", *labels)
        assert (routed.stdout.strip(), routed.returncode) == (receivers, 0), labels


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["amtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)


def test_an_alert_of_the_metrics_is_inhibited_by_the_same_alert_of_the_product() -> None:
    (rule,) = (each for each in ALERTMANAGER["inhibit_rules"] if each["equal"] == ["cluster", "rule"])

    assert set(matched(rule["source_matchers"], "alertname").split("|")) == {"KraftwatchCritical", "KraftwatchWarning"}
    assert set(matched(rule["target_matchers"], "alertname").split("|")) == set(CONDITIONS)


def matched(matchers: list[str], label: str) -> str:
    """The value or pattern of one label; "" if no matcher names it."""
    found = [re.fullmatch(rf'{label}\s*=~?\s*"([^"]*)"', each) for each in matchers]
    return next((each[1] for each in found if each), "")
