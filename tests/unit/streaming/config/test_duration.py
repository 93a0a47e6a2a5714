"""Durations are written the same everywhere: in YAML, with --set and with --timeout."""

from typing import Annotated, Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from connectors.errors import UsageError
from connectors.settings.sections import parse_seconds
from streaming.cli.config_from_options import overrides
from streaming.config import Config
from tests.unit.streaming.config.section_models import all_models


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
        ("1e+06", 1_000_000),
        ("2.592e6", 2_592_000),
        (" 7s ", 7),
        ("0", 0),
    ],
)
def test_each_form_is_understood(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "4x", "-1", "1h30m", "1e99", "1e-3", "nan", "inf", "5 m", "٣s"])
def test_any_other_form_is_refused_with_the_expected_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected seconds or a duration such as 30s, 5m, 1h$"):
        parse_seconds(text)


@pytest.mark.parametrize("value", ["5m", "soon", "-1", "nan"])
def test_what_is_no_count_is_refused_with_what_is_counted(value: str) -> None:
    assert overrides({}, ["no-leader.hold=2m", "epoch-churn.elections=1e+06"]) == {
        "no-leader": {"hold": 120},
        "epoch-churn": {"elections": 1_000_000},
    }
    with pytest.raises(UsageError) as refused:
        overrides({}, [f"epoch-churn.elections={value}"])
    assert str(refused.value) == (
        f"--set epoch-churn.elections={value}: invalid value '{value}': expected a number of elections"
    )


def test_every_number_with_a_unit_of_time_accepts_all_forms() -> None:
    found = {
        f"{model.__name__}.{name}": field
        for model in all_models(Config)
        for name, field in model.model_fields.items()
        if float in (field.annotation, *get_args(field.annotation))
    }
    assert {
        "HeartbeatSection.every",
        "OtlpSection.every",
        "MaintenanceSection.for_",
    } <= set(found)
    for key, field in found.items():
        annotated: Any = Annotated[field.annotation, *field.metadata]
        adapter: TypeAdapter[Any] = TypeAdapter(annotated)
        values = [adapter.validate_python(value) for value in (300, "300", "300s", "5m")]
        assert values == [300.0] * 4, key
        for wrong in ("5 minutes", None, [5], float("inf")):
            with pytest.raises(ValidationError):
                adapter.validate_python(wrong)
