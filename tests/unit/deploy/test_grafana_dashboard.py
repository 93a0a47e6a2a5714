"""The Grafana dashboard: as generated, valid by Grafana's schema, and with existing metrics."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.grafana.charts import ROWS, Chart
from deploy.grafana.dashboard import FILE, text
from tests.unit.deploy.test_prometheus_rules import labels_by_metric, unknown

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / FILE).read_text())
CHARTS = [chart for _, charts in ROWS for chart in charts]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALL_CLUSTERS = ".*"
"""What Grafana inserts for `$cluster` when all clusters are selected."""


def expressions_of(chart: Chart) -> list[str]:
    return [one.expr.replace("$cluster", ALL_CLUSTERS) for one in chart.queries]


def test_the_dashboard_is_up_to_date() -> None:
    assert (FOLDER / FILE).read_text() == text(), "run `make goldens` and review the diff"


def test_dashboard_survives_the_types_of_grafanas_sdk() -> None:
    """The types are generated from Grafana's own schema: they would drop an unknown key."""
    register_default_plugins()

    read = Dashboard.from_json(DASHBOARD)

    assert json.loads(JSONEncoder(sort_keys=True).encode(read)) == DASHBOARD


def test_unknown_key_is_found() -> None:
    register_default_plugins()
    wrong = json.loads(json.dumps(DASHBOARD))
    wrong["panels"][1]["datasuorce"] = {}

    assert json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(wrong))) != wrong


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_chart_uses_existing_metrics_and_labels(chart: Chart) -> None:
    known = labels_by_metric()
    for one in chart.queries:
        assert list(unknown(one.expr)) == []
        labels = {label for name in re.findall(r"kraftwatch_\w+", one.expr) for label in known[name]}
        assert set(re.findall(r"\{\{(\w+)\}\}", one.legend)) <= labels
    assert chart.description.endswith(".")


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


def test_each_chart_is_a_panel_with_all_of_its_queries() -> None:
    assert [panel["title"] for panel in PANELS] == [chart.title for chart in CHARTS]
    for panel, chart in zip(PANELS, CHARTS, strict=True):
        assert [target["expr"] for target in panel["targets"]] == [one.expr for one in chart.queries]
        assert {target["refId"] for target in panel["targets"]} == set("ABCDEFGHIJ"[: len(chart.queries)])


ANNOTATIONS = [each for each in DASHBOARD["annotations"]["list"] if "expr" in each]


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_firing_alerts_are_annotations(severity: str) -> None:
    (annotation,) = (each for each in ANNOTATIONS if f'severity="{severity}"' in each["expr"])

    assert annotation["enable"] is True
    assert annotation["datasource"]["type"] == "prometheus"
    assert list(unknown(annotation["expr"])) == []


def test_dashboard_and_its_table_link_to_the_page() -> None:
    (link,) = DASHBOARD["links"]
    (table,) = (panel for panel in PANELS if panel["type"] == "table")
    (field,) = table["fieldConfig"]["overrides"]
    (links,) = (each["value"] for each in field["properties"] if each["id"] == "links")
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}

    assert link["url"] == "${page}/"
    assert field["matcher"] == {"id": "byName", "options": "cluster"}
    assert [each["url"] for each in links] == ["${page}/clusters/${__value.text:percentencode}"]
    assert variables["page"]["type"] == "textbox"


@pytest.mark.debian("prometheus")
def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    annotations = [each["expr"].replace("$cluster", ALL_CLUSTERS) for each in ANNOTATIONS]
    expressions = [expr for chart in CHARTS for expr in expressions_of(chart)] + annotations
    rules = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    ran = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(expressions)} rules found" in ran.stdout
