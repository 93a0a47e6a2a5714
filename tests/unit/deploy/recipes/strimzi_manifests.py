"""The manifests of the page about Strimzi."""

import re
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parents[4] / "docs" / "strimzi.md"


BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
]


(VALUES,) = (block for block in BLOCKS if "config" in block)


(POLICY,) = (block for block in BLOCKS if block.get("kind") == "NetworkPolicy")


(CHECK,) = (block for block in BLOCKS if block.get("kind") == "Job")


(USER,) = (block for block in BLOCKS if block.get("kind") == "KafkaUser")
