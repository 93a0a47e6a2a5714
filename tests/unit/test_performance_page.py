"""docs/performance.md, its pictures and the estimate of docs/scale.md are what docs/performance.json renders to."""

import copy
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from connectors.errors import UsageError
from tests.bench.__main__ import chosen
from tests.bench.line_chart import Axis, LineChart
from tests.bench.markdown_table import tables_of
from tests.bench.measured_sections import ROOT, SECTIONS, medians, read_figures
from tests.bench.performance_page import PAGE, PICTURES, SCALE, pictures, render
from tests.bench.scale_estimate import ScaleSlopes, scale_page

RENDERED = "python -m tests.bench.performance_page"


def test_page_is_rendered_from_the_stored_figures() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(read_figures()), RENDERED


def test_pictures_are_drawn_from_the_stored_figures() -> None:
    drawn = pictures(read_figures())

    assert drawn
    assert {path.name for path in PICTURES.glob("bench-*.svg")} == set(drawn), RENDERED
    for name, svg in drawn.items():
        assert (PICTURES / name).read_text(encoding="utf-8") == svg, RENDERED


def test_estimate_of_large_fleets_is_computed_from_the_stored_figures() -> None:
    text = SCALE.read_text(encoding="utf-8")

    assert scale_page(text, read_figures()) == text, RENDERED


def test_another_figure_changes_page_and_pictures() -> None:
    stored = read_figures()
    changed: dict[str, Any] = copy.deepcopy(stored)
    changed["latency"]["figures"]["latency_ms"]["p99"] = 123_456.0
    changed["latency"]["figures"]["distribution_ms"][-1] = 123_456.0

    assert "123,456" in render(changed)
    assert pictures(changed)["bench-latency.svg"] != pictures(stored)["bench-latency.svg"]


def test_section_without_figures_says_how_it_is_measured() -> None:
    page = render({})

    for section in SECTIONS:
        assert f"Not measured yet: `{section.command}`" in page


def test_unknown_section_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="ONLY=speed is no section; the sections are latency, idle, "):
        chosen("latency,speed")
    assert [each.name for each in chosen(" idle, latency")] == ["latency", "idle"]
    assert list(chosen("")) == list(SECTIONS)


def test_figures_of_several_runs_are_their_medians() -> None:
    runs = [{"ms": each, "rows": {"a": [each, 1]}, "name": "x"} for each in (3, 900, 5)]

    assert medians(runs) == {"ms": 5, "rows": {"a": [5, 1]}, "name": "x"}


def test_slopes_are_the_cost_of_one_more_cluster() -> None:
    def job(clusters: int) -> dict[str, Any]:
        return {
            "clusters": clusters,
            "core": {"gatherer": 0.1 + 0.002 * clusters},
            "memory_mb": 500 + 2.0 * clusters,
        }

    def metadata(partitions: int) -> dict[str, Any]:
        return {"state_bytes": 700 + 9 * partitions, "spark_state_bytes": 300 + 6 * partitions}

    slopes = ScaleSlopes.of(
        {
            "jobs": {"figures": {str(each): job(each) for each in (1, 100, 1_000)}},
            "metadata": {"figures": {"partitions": {str(each): metadata(each) for each in (1_000, 100_000)}}},
            "executors": {"figures": {"executors": {"1": {"executors_cpu_ms": 0.8, "driver_cpu_ms": 0.4}}}},
            "relay": {"figures": {"rows_per_cluster_second": 4.0, "payload_bytes_per_cluster_second": 600}},
        }
    )

    assert slopes.gather_ms == pytest.approx(2.0)
    assert slopes.memory_mb == pytest.approx(2.0)
    assert (slopes.partition_bytes, slopes.batch_bytes) == (9, 6)
    assert [round(clusters) for clusters, _, _ in slopes.limits()] == [350, 875, 1750]


def test_wide_table_is_turned() -> None:
    wide = {"small": dict.fromkeys("abcdefg", 1), "large": dict.fromkeys("abcdefg", 2)}

    assert tables_of({"x": {"ms": 1234, "of_a_core": 0.5}}, "what")[0] == "| what | ms | of a core |"
    assert tables_of(wide, "what")[:3] == ["| what | small | large |", "|---|---|---|", "| a | 1 | 2 |"]


def test_chart_keeps_every_point_inside_the_picture() -> None:
    chart = LineChart(
        title="A < B",
        x=Axis(label="x", logarithmic=True),
        y=Axis(label="y"),
        series={"one": [(1, 0.5), (1_000_000, 987)], "two": [(30, 3)]},
    )

    root = ET.fromstring(chart.svg())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    shapes = [each for each in root.iter() if each.tag.endswith("polyline")]
    assert len(shapes) == 2
    for shape in shapes:
        for point in shape.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 < x < width
            assert 0 < y < height


def test_pages_name_no_path_of_the_machine_that_measured() -> None:
    stored = json.dumps(read_figures())

    assert not re.search(r"/(home|tmp|work|root|Users)/", stored)
    assert str(ROOT) not in stored
