"""Durations are written the same everywhere: in YAML, with --set and with --timeout."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from streaming.cli.config_from_options import overrides
from streaming.config import load
from streaming.config.duration import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("0.5", 0.5),
        ("1.5m", 90),
        ("5m", 300),
        ("1h", 3_600),
        ("2d", 172_800),
        (" 7s ", 7),
        ("0", 0),
    ],
)
def test_each_form_is_understood(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "4x", "-1", "1h30m", "1e3", "nan", "inf", "5 m", "٣s"])
def test_any_other_form_is_refused_with_the_expected_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected seconds or a duration such as 30s, 5m, 1h$"):
        parse_seconds(text)


def test_a_threshold_in_yaml_may_have_a_unit(tmp_path: Path) -> None:
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(
        """
        clusters:
          - {name: prod, bootstrap: ["c1:9093"], thresholds: {no-leader: {clear: 1m}}}
        thresholds: {no-leader: {hold: 7s, clear: 20}, epoch-churn: {elections: 5}}
        audit_every: 1h
        """
    )
    config = load(path)

    assert config.audit_every == 3_600
    assert config.overrides(config.clusters[0]) == {
        "no-leader.hold": 7,
        "no-leader.clear": 60,
        "epoch-churn.elections": 5,
    }


def test_a_threshold_on_the_command_line_may_have_a_unit() -> None:
    assert overrides({}, ["no-leader.hold=2m", "epoch-churn.elections=5"]) == {
        "no-leader": {"hold": 120},
        "epoch-churn": {"elections": 5},
    }


def test_a_unit_of_time_for_a_count_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^--set epoch-churn.elections=5m: invalid value '5m' .* number of elections$"
    ):
        overrides({}, ["epoch-churn.elections=5m"])
