"""Builds the dashboard from the charts, with the types of Grafana's own SDK.

`python -m deploy.grafana.dashboard` (`make goldens`) writes it.
"""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import GraphGradientMode, LineInterpolation, VisibilityMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.charts import ROWS, Chart, ChartForm, ChartQuery

FILE = "kraftwatch.json"
UID = "kraftwatch"
LOCAL_PAGE = "http://127.0.0.1:9847"
PAGE = "${page}"
"""The address at which people reach kraftwatch's page, which they enter at the top."""
PROMETHEUS = model.DataSourceRef(type_val="prometheus", uid="$datasource")
HEIGHT = 7
_LETTERS = "ABCDEFGHIJ"
Panel: TypeAlias = timeseries.Panel | statetimeline.Panel | stat.Panel | table.Panel


def text() -> str:
    """Returns the JSON file that Grafana imports."""
    return JSONEncoder(sort_keys=True, indent=1).encode(dashboard()) + "\n"


def dashboard() -> model.Dashboard:
    """Returns the whole dashboard."""
    made = (
        build.Dashboard("kraftwatch: KRaft metadata quorums")
        .uid(UID)
        .description("The metadata quorums of Kafka clusters, as kraftwatch monitors them.")
        .tags(["kafka", "kraft", "kraftwatch"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            build.QueryVariable("cluster")
            .label("cluster")
            .datasource(PROMETHEUS)
            .query("label_values(kraftwatch_cluster_configured, cluster)")
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.ALPHABETICAL_ASC)
            .multi(multi=True)
            .include_all(include_all=True)
            .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
        )
        .with_variable(build.TextBoxVariable("page").label("kraftwatch's page").default_value(LOCAL_PAGE))
        .link(
            build.DashboardLink("kraftwatch's page")
            .type(model.DashboardLinkType.LINK)
            .url(f"{PAGE}/")
            .target_blank(target_blank=True)
        )
        .annotation(_firing("critical", color="red"))
        .annotation(_firing("warning", color="orange"))
    )
    numbers = count(1)
    for title, charts in ROWS:
        made.with_row(build.Row(title).id(next(numbers)))
        for chart in charts:
            made.with_panel(panel(chart).id(next(numbers)))
    return made.build()


def _firing(severity: str, *, color: str) -> build.AnnotationQuery:
    """Returns the annotation of firing alerts: Grafana takes an annotation's title from the label alertname."""
    alerts = f'max by (cluster, rule) (kraftwatch_rule_firing{{cluster=~"$cluster", severity="{severity}"}}) > 0'
    titled = f'label_join({alerts}, "alertname", ": ", "cluster", "rule")'
    query = build.AnnotationQuery().name(f"{severity} alerts").datasource(PROMETHEUS)
    return query.enable(enable=True).icon_color(color).expr(titled)


def panel(chart: Chart) -> Panel:
    """Returns the panel of one chart."""
    made = _panel_of_form(chart)
    made.title(chart.title).description(chart.description).datasource(PROMETHEUS).span(chart.width).height(HEIGHT)
    made.unit(chart.unit)
    for letter, one in zip(_LETTERS, chart.queries, strict=False):
        made.with_target(_target(one, chart).ref_id(letter))
    if chart.steps:
        made.thresholds(build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(_steps(chart.steps)))
        made.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    if chart.values:
        made.mappings([_mapping(chart.values)])
    return made


def _panel_of_form(chart: Chart) -> Panel:
    match chart.form:
        case ChartForm.LINES:
            return (
                timeseries.Panel()
                .line_interpolation(LineInterpolation.STEP_AFTER)
                .line_width(2)
                .fill_opacity(8)
                .gradient_mode(GraphGradientMode.NONE)
                .show_points(VisibilityMode.NEVER)
                # A gap means that the value was unknown.
                .span_nulls(span_nulls=False)
                .legend(common.VizLegendOptions().show_legend(show_legend=True))
            )
        case ChartForm.STATES:
            bars = statetimeline.Panel().merge_values(merge_values=True).show_value(VisibilityMode.AUTO)
            return bars.fill_opacity(70).line_width(0)
        case ChartForm.NUMBER:
            newest = common.ReduceDataOptions().calcs(["lastNotNull"])
            return stat.Panel().reduce_options(newest).no_value("unknown")
        case ChartForm.TABLE:
            letters = zip(_LETTERS, chart.queries, strict=False)
            columns = {f"Value #{letter}": one.legend for letter, one in letters}
            organized = {"excludeByName": {"Time": True}, "renameByName": columns}
            return (
                table.Panel()
                .show_header(show_header=True)
                .override_by_name("cluster", [model.DynamicConfigValue(id_val="links", value=[_page_link()])])
                .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
                .with_transformation(model.DataTransformerConfig(id_val="organize", options=organized))
            )


def _page_link() -> dict[str, object]:
    url = f"{PAGE}/clusters/${{__value.text:percentencode}}"
    return {"title": "kraftwatch's page of this cluster", "url": url, "targetBlank": True}


def _target(one: ChartQuery, chart: Chart) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(one.expr).legend_format(one.legend).datasource(PROMETHEUS)
    match chart.form:
        case ChartForm.TABLE:
            return query.instant().format(PromQueryFormat.TABLE)
        case ChartForm.NUMBER:
            return query.instant()
        case ChartForm.LINES | ChartForm.STATES:
            return query.range()


def _steps(steps: Sequence[tuple[float | None, str]]) -> list[model.Threshold]:
    return [model.Threshold(value=value, color=color) for value, color in steps]


def _mapping(values: Sequence[tuple[str, str, str]]) -> model.ValueMap:
    return model.ValueMap(
        options={
            value: model.ValueMappingResult(text=word, color=color, index=index)
            for index, (value, word, color) in enumerate(values)
        }
    )


if __name__ == "__main__":
    Path(__file__).with_name(FILE).write_text(text(), encoding="utf-8")
