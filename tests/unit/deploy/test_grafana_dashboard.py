"""The dashboard for Grafana: as generated, as its schema wants it, and of metrics that there are."""

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

from deploy.grafana.chart import Chart
from deploy.grafana.charts import ROWS
from deploy.grafana.dashboard import FILE, text
from tests.unit.deploy.test_prometheus_rules import told, unknown

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
KEPT: dict[str, Any] = json.loads((FOLDER / FILE).read_text())
CHARTS = [chart for _, charts in ROWS for chart in charts]
PANELS = [panel for panel in KEPT["panels"] if panel["type"] != "row"]
CHOSEN = ".*"
"""What Grafana puts in for `$cluster` when all are chosen."""


def asked(chart: Chart) -> list[str]:
    return [one.expr.replace("$cluster", CHOSEN) for one in chart.asks]


def test_the_dashboard_is_up_to_date() -> None:
    assert (FOLDER / FILE).read_text() == text(), "run `make goldens`, and look at it"


def test_the_sdks_types_read_it_and_write_the_same() -> None:
    """They are generated from Grafana's own schema: a key they do not know would be lost on the way."""
    register_default_plugins()

    read = Dashboard.from_json(KEPT)

    assert json.loads(JSONEncoder(sort_keys=True).encode(read)) == KEPT


def test_a_key_that_the_schema_does_not_know_would_be_found() -> None:
    register_default_plugins()
    wrong = json.loads(json.dumps(KEPT))
    wrong["panels"][1]["datasuorce"] = {}

    assert json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(wrong))) != wrong


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_a_chart_asks_for_metrics_and_labels_that_there_are(chart: Chart) -> None:
    known = told()
    for one in chart.asks:
        assert list(unknown(one.expr)) == []
        labels = {label for name in re.findall(r"kraftwatch_\w+", one.expr) for label in known[name]}
        assert set(re.findall(r"\{\{(\w+)\}\}", one.legend)) <= labels
    assert chart.words.endswith(".")


def test_every_panel_has_its_own_number_and_place() -> None:
    numbers = [panel["id"] for panel in KEPT["panels"]]
    cells = [
        (x, y)
        for panel in KEPT["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(numbers) == len(set(numbers))
    assert len(cells) == len(set(cells)), "panels overlap"
    assert max(x for x, _ in cells) == 23


def test_each_chart_is_a_panel_with_all_of_its_questions() -> None:
    assert [panel["title"] for panel in PANELS] == [chart.title for chart in CHARTS]
    for panel, chart in zip(PANELS, CHARTS, strict=True):
        assert [target["expr"] for target in panel["targets"]] == [one.expr for one in chart.asks]
        assert {target["refId"] for target in panel["targets"]} == set("ABCDEFGHIJ"[: len(chart.asks)])


@pytest.mark.debian("prometheus")
def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    expressions = [expr for chart in CHARTS for expr in asked(chart)]
    rules = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    ran = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(expressions)} rules found" in ran.stdout
