"""The dashboard, built of the charts with Grafana's own SDK, whose types are the schema."""

from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

from grafana_foundation_sdk.builders import common, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus as ask
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import GraphGradientMode, LineInterpolation, VisibilityMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.chart import Ask, Chart, Look
from deploy.grafana.charts import ROWS

FILE = "kraftwatch.json"
UID = "kraftwatch"
PROMETHEUS = model.DataSourceRef(type_val="prometheus", uid="$datasource")
HEIGHT = 7
_LETTERS = "ABCDEFGHIJ"
Panel: TypeAlias = timeseries.Panel | statetimeline.Panel | stat.Panel | table.Panel


def text() -> str:
    """The file: JSON that Grafana imports as it is."""
    return JSONEncoder(sort_keys=True, indent=1).encode(dashboard()) + "\n"


def dashboard() -> model.Dashboard:
    """The whole dashboard."""
    made = (
        build.Dashboard("kraftwatch: KRaft metadata quorums")
        .uid(UID)
        .description("Whether the metadata quorums of these Kafka clusters are well, as kraftwatch sees them.")
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
    )
    numbers = count(1)
    for title, charts in ROWS:
        made.with_row(build.Row(title).id(next(numbers)))
        for chart in charts:
            made.with_panel(panel(chart).id(next(numbers)))
    return made.build()


def panel(chart: Chart) -> Panel:
    """One chart."""
    made = _looking(chart)
    made.title(chart.title).description(chart.words).datasource(PROMETHEUS).span(chart.width).height(HEIGHT)
    made.unit(chart.unit)
    for letter, one in zip(_LETTERS, chart.asks, strict=False):
        made.with_target(_target(one, chart).ref_id(letter))
    if chart.steps:
        made.thresholds(build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(_steps(chart.steps)))
        made.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    if chart.values:
        made.mappings([_mapping(chart.values)])
    return made


def _looking(chart: Chart) -> Panel:
    match chart.look:
        case Look.LINES:
            return (
                timeseries.Panel()
                .line_interpolation(LineInterpolation.STEP_AFTER)
                .line_width(2)
                .fill_opacity(8)
                .gradient_mode(GraphGradientMode.NONE)
                .show_points(VisibilityMode.NEVER)
                # A gap is an answer: nobody could tell.
                .span_nulls(span_nulls=False)
                .legend(common.VizLegendOptions().show_legend(show_legend=True))
            )
        case Look.STATES:
            bars = statetimeline.Panel().merge_values(merge_values=True).show_value(VisibilityMode.AUTO)
            return bars.fill_opacity(70).line_width(0)
        case Look.NUMBER:
            newest = common.ReduceDataOptions().calcs(["lastNotNull"])
            return stat.Panel().reduce_options(newest).no_value("nobody can tell")
        case Look.TABLE:
            letters = zip(_LETTERS, chart.asks, strict=False)
            columns = {f"Value #{letter}": one.legend for letter, one in letters}
            organized = {"excludeByName": {"Time": True}, "renameByName": columns}
            return (
                table.Panel()
                .show_header(show_header=True)
                .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
                .with_transformation(model.DataTransformerConfig(id_val="organize", options=organized))
            )


def _target(one: Ask, chart: Chart) -> ask.Dataquery:
    query = ask.Dataquery().expr(one.expr).legend_format(one.legend).datasource(PROMETHEUS)
    match chart.look:
        case Look.TABLE:
            return query.instant().format(PromQueryFormat.TABLE)
        case Look.NUMBER:
            return query.instant()
        case Look.LINES | Look.STATES:
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
