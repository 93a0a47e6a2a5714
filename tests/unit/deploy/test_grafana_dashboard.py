"""The Grafana dashboard: valid by Grafana's schema, and with existing metrics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.unit.deploy.promtool import labels_by_metric, promtool, unknown

DASHBOARD: dict[str, Any] = json.loads((Path(__file__).parents[3] / "deploy/grafana/kraftwatch.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALL_CLUSTERS = ".*"
"""What Grafana inserts for `$cluster` when all clusters are selected."""


def test_dashboard_survives_the_types_of_grafanas_sdk() -> None:
    """The types are generated from Grafana's own schema: they would drop an unknown key."""
    register_default_plugins()

    read = Dashboard.from_json(DASHBOARD)

    assert json.loads(JSONEncoder(sort_keys=True).encode(read)) == DASHBOARD


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_chart_uses_existing_metrics_and_labels(panel: dict[str, Any]) -> None:
    known = labels_by_metric()
    for one in panel["targets"]:
        assert list(unknown(one["expr"])) == []
        labels = {label for name in re.findall(r"kraftwatch_\w+", one["expr"]) for label in known[name]}
        assert set(re.findall(r"\{\{(\w+)\}\}", one["legendFormat"])) <= labels
    assert panel["description"].endswith(".")
    assert len({one["refId"] for one in panel["targets"]}) == len(panel["targets"])


def test_every_panel_has_its_own_id_and_position() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(numbers) == len(set(numbers))
    assert len(cells) == len(set(cells)), "panels overlap"
    assert max(x for x, _ in cells) == 23


ANNOTATIONS = [each for each in DASHBOARD["annotations"]["list"] if "expr" in each]


def test_firing_alerts_are_annotations() -> None:
    for severity, annotation in zip(("critical", "warning"), ANNOTATIONS, strict=True):
        assert f'severity="{severity}"' in annotation["expr"]
        assert list(unknown(annotation["expr"])) == []


@pytest.mark.debian("prometheus")
def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    queries = [*(target for panel in PANELS for target in panel["targets"]), *ANNOTATIONS]
    expressions = [each["expr"].replace("$cluster", ALL_CLUSTERS) for each in queries]
    rules = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    assert f"{len(expressions)} rules found" in promtool(tmp_path, "check", "rules", "rules.yml")


@pytest.mark.debian("prometheus")
def test_alert_that_two_jobs_with_one_store_export_is_shown_as_one(tmp_path: Path) -> None:
    metrics = {
        "kraftwatch_alerts_firing": 'cluster="prod", severity="critical"',
        "kraftwatch_rule_firing": 'cluster="prod", rule="no-leader", severity="critical"',
        "kraftwatch_unknown": 'cluster="prod", rule="no-leader"',
    }
    series = [
        {"series": f'{name}{{instance="{job}", {labels}}}', "values": "1x5"}
        for name, labels in metrics.items()
        for job in ("a:9847", "b:9847")
    ]
    shown = [target["expr"] for panel in PANELS for target in panel["targets"]]
    counts = [expr for expr in shown if any(name in expr for name in metrics) and 'severity="warning"' not in expr]
    wrong = [{"expr": f"({expr.replace('$cluster', ALL_CLUSTERS)}) != 1", "eval_time": "2m"} for expr in counts]
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": wrong}]})
    )

    assert len(counts) == 4
    promtool(tmp_path, "test", "rules", "test.yml")
