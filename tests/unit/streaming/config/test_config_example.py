"""The annotated example and the schema: both say what the models say."""

import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from connectors.sinks.sink_entry import SINK_SECTIONS, SinkEntry
from streaming.config import Config, config_json_schema, load
from tests.unit.streaming.config.section_models import all_models

EXAMPLE = files("streaming.config").joinpath("example.yaml").read_text(encoding="utf-8")


UNCOMMENTED = re.sub(r"^(\s*)#(?=[^ \n]|    )", r"\1", EXAMPLE, flags=re.MULTILINE)
"""With every key that the example only shows, in effect."""


@pytest.fixture(params=["as it is", "with every key"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(EXAMPLE if request.param == "as it is" else UNCOMMENTED)
    return path


def test_the_example_is_valid(example: Path) -> None:
    assert [section.name for section in load(example).watched] == ["prod", "staging"]


def test_the_schema_accepts_the_example(example: Path) -> None:
    jsonschema.Draft202012Validator(config_json_schema()).validate(yaml.safe_load(example.read_text()))


NOT_SHOWN = {SinkEntry, *(section for kind, section in SINK_SECTIONS.items() if f"\n- {kind}" not in UNCOMMENTED)}
"""The kinds of sinks that are only in docs/configuration.md, and the register of all kinds."""


def test_the_example_shows_every_key_of_what_it_shows() -> None:
    shown = [model for model in all_models(Config) if model not in NOT_SHOWN]
    for model in shown:
        for key in (field.alias or name for name, field in model.model_fields.items()):
            # A secret is shown as its file.
            assert re.search(rf"\b{key}(_file)?:|^- {key}$", UNCOMMENTED, re.MULTILINE), f"{model.__name__}: {key}"
