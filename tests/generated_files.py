"""`python -m tests.generated_files` (`make goldens`): writes the documents and schemas that the code describes."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from connectors.sinks.alert_json import alert_schema
from rules.evaluate import ALL_RULES
from streaming.config import config_json_schema
from tests import configuration_page, metric_page, rule_pages, status_schema
from tests.kafka import version_table

ROOT = Path(__file__).parents[1]
ALERTMANAGER = ROOT / "deploy" / "prometheus" / "alertmanager.yml"
CHART = ROOT / "deploy" / "helm" / "kraftwatch" / "files"
CHARTED = (
    *sorted((ROOT / "deploy" / "prometheus").glob("kraftwatch-*.rules.yml")),
    ROOT / "deploy" / "grafana" / "kraftwatch.json",
)
"""What the chart installs too: helm reads only files of the chart's folder."""


def generated() -> Mapping[Path, str]:
    """Returns the text of every generated file of the repository."""
    return {
        configuration_page.PAGE: configuration_page.page(),
        ROOT / "deploy" / "config.schema.json": json.dumps(config_json_schema(), indent=2) + "\n",
        ALERTMANAGER: _alertmanager(),
        ROOT / "docs" / "alert.schema.json": status_schema.text(status_schema.tidy(alert_schema())),
        metric_page.PAGE: metric_page.page(),
        version_table.PAGE: version_table.page(),
        status_schema.PATH: status_schema.text(status_schema.schema()),
        **{CHART / path.name: path.read_text(encoding="utf-8") for path in CHARTED},
        **{rule_pages.PAGES / name: text for name, text in rule_pages.pages().items()},
    }


def _alertmanager() -> str:
    """Returns the sample configuration, whose inhibitions are those of the rules."""
    before, comment, rest = ALERTMANAGER.read_text(encoding="utf-8").partition("  # The causes and their consequences")
    _, after, rest = rest.partition("  # The same condition twice")
    causes: dict[str, list[str]] = {}
    for rule in ALL_RULES.values():
        for cause in rule.inhibited_by:
            causes.setdefault(cause, []).append(rule.id)
    blocks = [
        f"  - source_matchers: ['rule=\"{cause}\"']\n"
        f"    target_matchers: ['rule=~\"{'|'.join(consequences)}\"']\n"
        "    equal: [cluster]\n"
        for cause, consequences in sorted(causes.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]
    return "".join(
        [before, comment, " of kraftwatch's own rules (`make goldens` writes them).\n", *blocks, after, rest]
    )


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
