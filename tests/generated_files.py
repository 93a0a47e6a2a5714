"""`python -m tests.generated_files` (`make goldens`): writes the documents and schemas that the code describes."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from streaming.config import config_json_schema
from tests import configuration_page, metric_page, rule_pages, status_schema
from tests.kafka import version_table

ROOT = Path(__file__).parents[1]


def generated() -> Mapping[Path, str]:
    """Returns the text of every generated file of the repository."""
    return {
        configuration_page.PAGE: configuration_page.page(),
        ROOT / "deploy" / "config.schema.json": json.dumps(config_json_schema(), indent=2) + "\n",
        metric_page.PAGE: metric_page.page(),
        version_table.PAGE: version_table.page(),
        status_schema.PATH: status_schema.text(),
        **{rule_pages.PAGES / name: text for name, text in rule_pages.pages().items()},
    }


def main() -> int:
    """Writes the files, and deletes the pages of rules that are no longer there."""
    files = generated()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    for path in {*rule_pages.PAGES.iterdir()} - {*files}:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
