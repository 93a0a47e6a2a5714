"""docs/alerts.md says how sinks are set up: every example in it is a configuration."""

import re
from pathlib import Path

import pytest
import yaml

from streaming.config import checked

PAGE = Path(__file__).parents[4] / "docs" / "alerts.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_configuration(example: str) -> None:
    data = yaml.safe_load(example)
    clusters = [{"name": name, "bootstrap": [f"{name}:9093"]} for name in ("prod-eu", "staging-eu")]
    config = checked({"clusters": clusters, **data}, "docs/alerts.md")
    assert len(config.sink_specs()) == len(data["sinks"])
